"""The watcher between a sandbox and a real NATS server."""
