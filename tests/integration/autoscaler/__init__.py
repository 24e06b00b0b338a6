"""The autoscaler as a process, on a real NATS server."""
