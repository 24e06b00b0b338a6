"""The shared control plane for the tests of this folder."""

from tests.kubernetes.fixtures import kubernetes

__all__ = ("kubernetes",)
