"""The Kubernetes API as plain requests, pages and watch events: no models, no caches, no domain.

The only package that may import `kubernetes_asyncio`, and of that only the parts that read credentials.
"""

from services.runtime.kube.client import (
    KubeClient,
    ListPage,
    Reply,
    WatchEvent,
)
from services.runtime.kube.credentials import Credentials
from services.runtime.kube.faults import Gone, KubeConfigError, KubeError, KubeFault, KubeUnavailable

__all__ = [
    "Credentials",
    "Gone",
    "KubeClient",
    "KubeConfigError",
    "KubeError",
    "KubeFault",
    "KubeUnavailable",
    "ListPage",
    "Reply",
    "WatchEvent",
]
