"""A real Kubernetes 1.37.2 control plane for tests."""
