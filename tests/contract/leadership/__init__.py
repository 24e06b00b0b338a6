"""What services rely on in their election, judged on a real NATS server."""
