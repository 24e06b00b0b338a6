"""Streams Kubernetes objects onto the bus as cluster events."""
