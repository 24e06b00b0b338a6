"""What the scenarios vary: the rows of the table."""

from enum import StrEnum


class Feature(StrEnum):
    """One thing that can decide where a pod may run. Those above the line are of the cluster, the others of a gang."""

    TAINT = "taint"
    CORDON = "cordon"
    DAEMON_POD = "daemon pod"
    FOREIGN_POD = "foreign pod"
    TERMINATING_POD = "terminating pod"
    FINISHED_POD = "finished pod"
    RESIZED_POD = "resized pod"
    POD_SLOTS = "pod slots"
    RUNNING_ANTI_AFFINITY = "anti-affinity of a running pod"

    TOLERATION = "toleration"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "required node affinity"
    NODE_AFFINITY_NUMBERS = "node affinity Gt, Lt"
    NODE_AFFINITY_FIELDS = "node affinity matchFields"
    NODE_PREFERENCE = "preferred node affinity"
    POD_AFFINITY = "pod affinity"
    ANTI_AFFINITY_HOST = "anti-affinity by host"
    ANTI_AFFINITY_ZONE = "anti-affinity by zone"
    POD_PREFERENCE = "preferred pod affinity"
    NAMESPACE_SELECTOR = "affinity namespaceSelector"
    AFFINITY_LABEL_KEYS = "affinity matchLabelKeys"
    SPREAD = "hard spread"
    SPREAD_SOFT = "soft spread"
    SPREAD_MIN_DOMAINS = "spread minDomains"
    SPREAD_LABEL_KEYS = "spread matchLabelKeys"
    SPREAD_POLICIES = "spread node policies"
    HOST_PORT = "host port"
    OVERHEAD = "overhead"
    INIT_REQUEST = "init container"
    SIDECAR = "sidecar"
    POD_LEVEL_RESOURCES = "pod-level resources"
    NODE_FEATURE = "declared node feature"
    EXTENDED_RESOURCE = "extended resource"
    UNEQUAL_MEMBERS = "unequal members"
    VOLUME_AFFINITY = "volume with node affinity"
    VOLUME_ONCE_POD = "ReadWriteOncePod volume"
    VOLUME_LIMIT = "attach limit"
    EXTRA_MEMBERS = "more than minCount"
    GATED_EXTRA = "gated extra member"
    MISSING_MEMBERS = "fewer than minCount"
    BASIC_POLICY = "basic policy"
    LONE_POD = "lone pod"
    RUNNING_MEMBER = "member that runs already"


OF_THE_CLUSTER = (
    Feature.TAINT,
    Feature.CORDON,
    Feature.DAEMON_POD,
    Feature.FOREIGN_POD,
    Feature.TERMINATING_POD,
    Feature.FINISHED_POD,
    Feature.RESIZED_POD,
    Feature.POD_SLOTS,
    Feature.RUNNING_ANTI_AFFINITY,
)

SHAPES = (
    Feature.EXTRA_MEMBERS,
    Feature.GATED_EXTRA,
    Feature.MISSING_MEMBERS,
    Feature.BASIC_POLICY,
    Feature.LONE_POD,
    Feature.RUNNING_MEMBER,
)
"""How many pods there are and how many of them must run; a gang has at most one of these."""

OF_THE_PODS = tuple(feature for feature in Feature if feature not in {*OF_THE_CLUSTER, *SHAPES})
