"""The placer with real gRPC and a real NATS server."""
