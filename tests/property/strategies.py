"""What hypothesis draws: any value that a message can carry, and small clusters on which much happens."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from services.core import allocations as a
from services.core import constraints as c
from services.core import decisions as d
from services.core import objects as o
from services.core import pod_devices as pd
from services.core.quantities import MAX_AMOUNT
from services.core.reasons import Reason, ReasonCode
from tests import builders

INT32 = st.integers(-(2**31), 2**31 - 1)
COUNTS = st.integers(0, 2**31 - 1)
REVISIONS = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=20)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,12}[a-z0-9])?", fullmatch=True)
TEXT_MAPS = st.dictionaries(TEXT, TEXT, max_size=4)
RESOURCES = st.dictionaries(TEXT, st.integers(0, MAX_AMOUNT), max_size=5)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - the zone is drawn beside
SPANS = st.timedeltas(timedelta(0), timedelta(days=365))


def _tuples(values: st.SearchStrategy[Any], *, most: int = 4) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=most).map(tuple)


OWNERS = st.builds(o.Owner, kind=TEXT, name=TEXT, uid=TEXT, is_controller=st.booleans(), api_version=TEXT)
METADATA = st.builds(
    o.Metadata,
    name=NAMES,
    namespace=NAMES | st.just(""),
    uid=TEXT,
    resource_version=TEXT,
    created_at=MOMENTS,
    deleted_at=st.none() | MOMENTS,
    labels=TEXT_MAPS,
    annotations=TEXT_MAPS,
    owners=_tuples(OWNERS),
)
_REQUIREMENTS = st.builds(c.NodeRequirement, key=TEXT, operator=TEXT, values=_tuples(TEXT))
_SELECTORS = st.none() | st.builds(c.LabelSelector, requirements=_tuples(_REQUIREMENTS, most=2))
_TERMS = st.builds(c.NodeSelectorTerm, expressions=_tuples(_REQUIREMENTS), fields=_tuples(_REQUIREMENTS))
_POD_TERMS = st.builds(
    c.PodTerm, topology_key=TEXT, selector=_SELECTORS, namespaces=_tuples(TEXT), namespace_selector=_SELECTORS
)
_RULES = st.just(c.NO_RULES) | st.builds(
    c.PodRules,
    affinity=_tuples(_POD_TERMS, most=2),
    anti_affinity=_tuples(_POD_TERMS, most=2),
    spread=_tuples(
        st.builds(
            c.SpreadConstraint,
            topology_key=TEXT,
            max_skew=INT32,
            is_hard=st.booleans(),
            selector=_SELECTORS,
            min_domains=INT32,
            honors_affinity=st.booleans(),
            honors_taints=st.booleans(),
        ),
        most=2,
    ),
    preferred_nodes=_tuples(st.builds(c.WeightedNodeTerm, weight=INT32, term=_TERMS), most=2),
    preferred_pods=_tuples(st.builds(c.WeightedPodTerm, weight=INT32, term=_POD_TERMS), most=2),
    host_ports=_tuples(st.builds(c.HostPort, port=INT32, protocol=TEXT, address=TEXT), most=2),
    disks=_tuples(st.builds(c.Disk, name=TEXT, is_read_only=st.booleans()), most=2),
    claims=_tuples(st.builds(c.Claim, name=TEXT, is_ephemeral=st.booleans()), most=2),
    features=_tuples(TEXT, most=2),
)
_POD_CLAIMS = st.builds(pd.PodClaim, entry=TEXT, claim=TEXT, template=TEXT, is_unneeded=st.booleans())
_POD_DEVICES = st.just(pd.NO_DEVICES) | st.builds(
    pd.PodDevices,
    claims=_tuples(_POD_CLAIMS, most=2),
    extended=_tuples(
        st.builds(
            pd.ContainerResource,
            index=COUNTS,
            position=COUNTS,
            container=TEXT,
            resource=TEXT,
            amount=st.integers(0, MAX_AMOUNT),
            is_initial=st.booleans(),
        ),
        most=2,
    ),
    extended_claim=TEXT,
)
_DEVICE_KINDS = (
    o.Kind.RESOURCE_SLICE,
    o.Kind.RESOURCE_CLAIM,
    o.Kind.RESOURCE_CLAIM_TEMPLATE,
    o.Kind.DEVICE_CLASS,
    o.Kind.DEVICE_TAINT_RULE,
)

_SOURCE_KINDS = (
    o.Kind.STATEFUL_SET,
    o.Kind.COSCHEDULING_GROUP,
    o.Kind.VOLCANO_GROUP,
    o.Kind.JOB_SET,
    o.Kind.LEADER_WORKER_SET,
    o.Kind.RAY_CLUSTER,
    o.Kind.PYTORCH_JOB,
    o.Kind.TF_JOB,
    o.Kind.MPI_JOB,
)

_OBJECTS = st.one_of(
    st.builds(
        o.Node,
        metadata=METADATA,
        allocatable=RESOURCES,
        is_unschedulable=st.booleans(),
        taints=_tuples(st.builds(c.Taint, key=TEXT, value=TEXT, effect=TEXT)),
        is_ready=st.booleans(),
        features=_tuples(TEXT, most=2),
    ),
    st.builds(
        o.Pod,
        metadata=METADATA,
        scheduler_name=TEXT,
        group=TEXT,
        node=TEXT,
        phase=TEXT,
        is_gated=st.booleans(),
        requests=RESOURCES,
        priority=INT32,
        node_selector=TEXT_MAPS,
        node_affinity=st.none() | _tuples(_TERMS),
        tolerations=_tuples(st.builds(c.Toleration, key=TEXT, operator=TEXT, value=TEXT, effect=TEXT)),
        unsupported=_tuples(TEXT),
        has_started=st.booleans(),
        unscheduled_reason=TEXT,
        rules=_RULES,
        devices=_POD_DEVICES,
        unreadable=TEXT,
        failure=TEXT,
        rejected_at=st.none() | MOMENTS,
    ),
    st.builds(
        o.PodGroup,
        metadata=METADATA,
        min_count=COUNTS,
        is_gang=st.booleans(),
        priority=INT32,
        priority_class=TEXT,
        workload=TEXT,
        template=TEXT,
        disrupts_all=st.booleans(),
        initially_scheduled=TEXT,
        topology_keys=_tuples(TEXT),
        claims=_tuples(_POD_CLAIMS, most=2),
    ),
    st.builds(o.Workload, metadata=METADATA, templates=_tuples(TEXT), controller_kind=TEXT, controller_name=TEXT),
    st.builds(
        o.GroupSource,
        metadata=METADATA,
        kind=st.sampled_from(_SOURCE_KINDS),
        min_count=st.none() | COUNTS,
        size=COUNTS,
        roles=_tuples(st.builds(o.Role, name=TEXT, count=COUNTS, is_late=st.booleans())),
        is_suspended=st.booleans(),
    ),
    st.builds(
        o.Job,
        metadata=METADATA,
        parallelism=INT32,
        completions=st.none() | INT32,
        is_suspended=st.booleans(),
        is_indexed=st.booleans(),
        backoff_limit=INT32,
        backoff_limit_per_index=st.none() | INT32,
        max_failed_indexes=st.none() | INT32,
        ignores_disruption_target=st.booleans(),
        fails_on_disruption_target=st.booleans(),
        pod_replacement_policy=TEXT,
        restart_policy=TEXT,
        failed=INT32,
        is_finished=st.booleans(),
    ),
    st.builds(o.PriorityClass, metadata=METADATA, value=INT32, is_global_default=st.booleans(), preemption_policy=TEXT),
    st.builds(o.Namespace, metadata=METADATA, phase=TEXT),
    st.builds(
        o.DeviceObject,
        metadata=METADATA,
        kind=st.sampled_from(_DEVICE_KINDS),
        spec_json=st.binary(max_size=20),
        status_json=st.binary(max_size=20),
    ),
    st.builds(
        o.VolumeClaim,
        metadata=METADATA,
        volume=TEXT,
        storage_class=TEXT,
        phase=TEXT,
        is_bound=st.booleans(),
        is_single_pod=st.booleans(),
    ),
    st.builds(o.Volume, metadata=METADATA, node_affinity=st.none() | _tuples(_TERMS), driver=TEXT, handle=TEXT),
    st.builds(o.StorageClass, metadata=METADATA, binding_mode=TEXT, provisioner=TEXT),
    st.builds(o.CsiNode, metadata=METADATA, limits=st.dictionaries(TEXT, INT32, max_size=3)),
    st.builds(
        o.WatchState,
        metadata=METADATA,
        phase=st.sampled_from(o.WatchPhase),
        api_version=TEXT,
        resource_version=TEXT,
        object_count=COUNTS,
    ),
)
CHANGES = st.one_of(
    st.builds(o.Applied, object=_OBJECTS),
    st.builds(o.Deleted, kind=st.sampled_from(o.Kind), metadata=METADATA),
)

REASONS = st.builds(Reason, code=st.sampled_from(ReasonCode), message=TEXT, count=COUNTS, subject=TEXT)
ASSIGNMENTS = st.builds(d.Assignment, pod=NAMES, uid=TEXT, node=NAMES)
DEVICES = st.builds(a.DeviceId, driver=TEXT, pool=TEXT, device=TEXT)
ALLOCATIONS = st.builds(
    a.ClaimAllocation,
    ref=st.builds(a.ClaimRef, namespace=NAMES, name=TEXT, uid=TEXT, pod=TEXT, entry=TEXT),
    consumers=_tuples(TEXT),
    results=_tuples(
        st.builds(
            a.DeviceResult,
            request=TEXT,
            driver=TEXT,
            pool=TEXT,
            device=TEXT,
            is_admin=st.booleans(),
            is_share=st.booleans(),
            consumed=st.dictionaries(NAMES, TEXT, max_size=2).map(lambda found: tuple(sorted(found.items()))),
            tolerations=_tuples(
                st.builds(
                    a.DeviceToleration,
                    key=TEXT,
                    operator=TEXT,
                    value=TEXT,
                    effect=TEXT,
                    seconds=st.none() | COUNTS,
                )
            ),
            binding_conditions=_tuples(TEXT),
            binding_failure_conditions=_tuples(TEXT),
        )
    ),
    node=NAMES,
    node_selector_json=st.binary(max_size=20),
    is_of_group=st.booleans(),
    extended=_tuples(
        st.builds(a.ExtendedRequest, name=TEXT, container=TEXT, resource=TEXT, device_class=TEXT, count=COUNTS)
    ),
)
VICTIMS = st.builds(d.Victim, namespace=NAMES, pod=NAMES, uid=TEXT, node=NAMES, priority=INT32, gang=TEXT)
_EVENTS = st.one_of(
    st.builds(
        d.Proposed,
        revision=REVISIONS,
        deadline=MOMENTS,
        min_count=COUNTS,
        assignments=_tuples(ASSIGNMENTS),
        round=COUNTS,
        already_placed=COUNTS,
        repair_window=SPANS,
        is_release=st.booleans(),
        is_reopened=st.booleans(),
        warnings=_tuples(REASONS),
        claims=_tuples(ALLOCATIONS),
        victims=_tuples(VICTIMS),
    ),
    st.builds(
        d.Waiting,
        revision=REVISIONS,
        min_count=COUNTS,
        existing=COUNTS,
        placeable=COUNTS,
        reasons=_tuples(REASONS),
    ),
    st.builds(d.Committed, members=_tuples(ASSIGNMENTS), repaired=COUNTS, accepted=COUNTS, open=COUNTS),
    st.builds(d.Refused, reasons=_tuples(REASONS)),
    st.builds(d.RolledBack, reasons=_tuples(REASONS), undone=_tuples(ASSIGNMENTS), kept=_tuples(ASSIGNMENTS)),
    st.builds(
        d.Repairing,
        round=COUNTS,
        bound=_tuples(ASSIGNMENTS),
        open=_tuples(
            st.builds(
                d.OpenMember,
                pod=NAMES,
                uid=TEXT,
                excluded_nodes=_tuples(NAMES),
                reason=st.none() | REASONS,
                excluded_devices=_tuples(DEVICES).map(lambda found: tuple(sorted(found))),
            )
        ),
        until=MOMENTS,
        min_count=COUNTS,
    ),
    st.builds(
        d.Degraded,
        revision=REVISIONS,
        min_count=COUNTS,
        placed=COUNTS,
        until=MOMENTS,
        policy=st.sampled_from(d.DegradedPolicy),
        is_over=st.booleans(),
        reasons=_tuples(REASONS),
    ),
)
DECISIONS = st.builds(
    d.Decision,
    gang=st.builds(lambda namespace, name: o.GangId(f"podgroup/{namespace}/{name}"), NAMES, NAMES),
    event=_EVENTS,
    decided_at=MOMENTS,
    transaction=TEXT,
    epoch=REVISIONS,
)


@st.composite
def nodes(draw: Callable[..., Any], *, most: int = 5) -> list[o.Node]:
    """A few nodes with few GPUs, some of them closed in one way or another."""
    sizes = draw(st.lists(st.integers(0, 8), min_size=0, max_size=most))
    closed = st.sampled_from(
        [{}, {}, {}, {"is_unschedulable": True}, {"is_ready": False}, {"taints": (c.Taint(key="x"),)}]
    )
    return [
        builders.node(f"n{index}", gpus=gpus, cpu=8_000, pods=draw(st.integers(1, 6)), **draw(closed))
        for index, gpus in enumerate(sizes)
    ]
