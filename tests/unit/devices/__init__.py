"""Devices of resource.k8s.io in the core."""
