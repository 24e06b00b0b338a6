"""The binder against a small Kubernetes API and a real NATS server."""
