"""The binder's connections to the bus and the Kubernetes API."""
