"""A small Kubernetes API in one process: the embedded default and the fake for tests."""
