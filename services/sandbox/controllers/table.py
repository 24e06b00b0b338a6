"""The controllers that a sandbox runs, in the order in which they look at a change."""

from collections.abc import Sequence

from services.sandbox.cluster import Cluster
from services.sandbox.controllers.claims import ClaimController
from services.sandbox.controllers.deployments import DeploymentController
from services.sandbox.controllers.device_taints import DeviceTaintEviction
from services.sandbox.controllers.garbage import GarbageCollector
from services.sandbox.controllers.groups import PodGroupProtection
from services.sandbox.controllers.jobs import JobController
from services.sandbox.controllers.kubelets import Kubelets
from services.sandbox.controllers.loop import Controller
from services.sandbox.controllers.namespaces import NamespaceController
from services.sandbox.controllers.orphans import OrphanCollector
from services.sandbox.controllers.quotas import QuotaStatus
from services.sandbox.controllers.replicas import ReplicaSetController
from services.sandbox.controllers.taints import NodeTaints, TaintEviction


def controllers(cluster: Cluster) -> Sequence[Controller]:
    """Every controller over one cluster."""
    return (
        ClaimController(cluster),
        Kubelets(cluster),
        JobController(cluster),
        DeploymentController(cluster),
        ReplicaSetController(cluster),
        PodGroupProtection(cluster),
        GarbageCollector(cluster),
        NamespaceController(cluster),
        OrphanCollector(cluster),
        QuotaStatus(cluster),
        NodeTaints(cluster),
        TaintEviction(cluster),
        DeviceTaintEviction(cluster),
    )
