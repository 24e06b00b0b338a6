"""Commits a whole placement to the Kubernetes API, or takes it back."""
