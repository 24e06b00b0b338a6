"""The watcher's connections to the Kubernetes API and the bus."""
