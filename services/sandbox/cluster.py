"""The simulated cluster: store, rules, faults and switches, put together once per process or test."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.runtime.clock import Clock, SystemClock
from services.sandbox import table
from services.sandbox.admission import Admission
from services.sandbox.deletion import Remover
from services.sandbox.faults import Faults
from services.sandbox.interference import WatchInterference
from services.sandbox.objects import Obj
from services.sandbox.served import ServedApis
from services.sandbox.store import Limits, Listener, Store
from services.sandbox.subresources import Subresources
from services.sandbox.traffic import Traffic
from services.sandbox.watching import Change
from services.sandbox.writes import Writer

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What a sandbox starts with."""

    #: Nodes `node-001`, … created at the start, Ready and without taint.
    nodes: int = 0
    gpus_per_node: int = 8
    #: Zones that the nodes are dealt to in turn.
    zones: int = 3
    #: How long a Job's pod runs, unless its annotation says otherwise.
    run_s: float = 30.0
    #: Pause of a Job after its first failed pod, doubled with each further one; Kubernetes waits 10 s.
    job_backoff_s: float = 1.0
    #: Whether controllers and kubelets are simulated; without them nothing moves on its own.
    has_controllers: bool = True
    #: Whether nodes created later get the not-ready taint.
    taints_new_nodes: bool = True
    #: Seconds between bookmarks of watches that asked for them.
    bookmark_interval_s: float = 60.0
    #: Served versions by group, for groups that are not served whole.
    apis: tuple[tuple[str, tuple[str, ...]], ...] = ()
    limits: Limits = field(default_factory=Limits)


class Cluster:
    """One sandbox: everything that requests, controllers and tests act on."""

    def __init__(self, settings: ClusterSettings | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings or ClusterSettings()
        self.clock: Clock = clock or SystemClock()
        self.store = Store(table.KINDS, limits=self.settings.limits)
        admission = Admission(store=self.store, taints_new_nodes=self.settings.taints_new_nodes)
        self.writer = Writer(self.store, admission, self.clock)
        self.remover = Remover(writer=self.writer)
        self.subresources = Subresources(writer=self.writer, remover=self.remover)
        self.served = ServedApis(table.KINDS)
        self.faults = Faults()
        self.traffic = Traffic()
        self.watches = WatchInterference(self.store)
        for group, versions in self.settings.apis:
            self.served.serve(group, versions=versions)
        self._seed()

    def _seed(self) -> None:
        for name in _NAMESPACES:
            self.writer.create(table.NAMESPACE, {"metadata": {"name": name}})
        for name, value in _SYSTEM_CLASSES.items():
            self.writer.create(table.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        for number in range(1, self.settings.nodes + 1):
            self.add_node(f"node-{number:03d}", zone=f"zone-{(number - 1) % self.settings.zones + 1}")

    def add_node(self, name: str, *, zone: str = "zone-1", gpus: int | None = None, labels: Obj | None = None) -> Obj:
        """Add a Ready node without taint and return it."""
        stored = self.writer.create(table.NODE, self.node(name, zone=zone, gpus=gpus, labels=labels))
        if stored.obj["spec"].get("taints"):
            kept = [taint for taint in stored.obj["spec"]["taints"] if taint["key"] != "node.kubernetes.io/not-ready"]
            spec = {**stored.obj["spec"], "taints": kept} if kept else {}
            stored = self.writer.commit(stored, {**stored.obj, "spec": spec})
        return stored.obj

    def node(self, name: str, *, zone: str, gpus: int | None, labels: Obj | None) -> Obj:
        """A node object of the sandbox's standard size."""
        count = self.settings.gpus_per_node if gpus is None else gpus
        capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}
        if count:
            capacity["nvidia.com/gpu"] = str(count)
        own = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": zone,
        }
        now = self.writer.now()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "simulated kubelet",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "metadata": {"name": name, "labels": {**own, **(labels or {})}},
            "spec": {},
            "status": {
                "capacity": capacity,
                "allocatable": dict(capacity),
                "conditions": [ready],
                "nodeInfo": {"kubeletVersion": "v1.37.2", "operatingSystem": "linux", "architecture": "amd64"},
            },
        }

    def follow(self, listener: Listener) -> None:
        """Show a listener everything that exists, and every change from now on."""
        for kind in self.store.kinds:
            for stored in tuple(self.store.collection(kind).objects.values()):
                listener(Change("ADDED", stored))
        self.store.listeners.append(listener)

    def serve(self, group: str, *, versions: Iterable[str]) -> None:
        """Serve exactly these versions of a group; watches of what is no longer served are broken."""
        self.served.serve(group, versions=tuple(versions))
        gone = [kind.plural for kind in self.store.kinds if not self.served.is_served(kind)]
        if gone:
            self.watches.break_open(gone)
