"""Every name that Phalanx shares with Kubernetes users: one place, so that two services never disagree."""

SCHEDULER_NAME = "phalanx"
"""`spec.schedulerName` of the pods that Phalanx places."""

PREFIX = "phalanx.dev/"
"""Prefix of all our labels, annotations, conditions and finalizers."""

TRANSACTION_ANNOTATION = PREFIX + "transaction"
"""On bound pods and allocated claims: the id of the transaction that wrote them."""

FENCE_ANNOTATION = PREFIX + "fence"
"""On pods that a transaction gave up, and claims of another that it uses: what rests on the version before, fails."""

REPAIR_WINDOW_ANNOTATION = PREFIX + "repair-window"
"""On a PodGroup: how long a failed member is re-placed before the gang is undone, as `30s`, `2m` or `0s`."""

ALLOW_DELETE_ANNOTATION = PREFIX + "allow-delete"
"""On a PodGroup: `"true"` lets an undo delete bound pods that no controller would recreate."""

DEGRADED_POLICY_ANNOTATION = PREFIX + "degraded-policy"
"""On a PodGroup: `keep` or `release`, what happens where the gang stays below its minCount."""

DEGRADED_TIMEOUT_ANNOTATION = PREFIX + "degraded-timeout"
"""On a PodGroup: how long a gang below its minCount is repaired ahead of others, as `5m`."""

WAKE_ANNOTATION = PREFIX + "wake"
"""On an HorizontalPodAutoscaler: `"true"` lets a target be woken that the HPA did not put to sleep itself."""

GROUP_SIZE_ANNOTATION = PREFIX + "group-size"
"""On an HorizontalPodAutoscaler: replicas that wake together, as `8`."""

FALLBACK_ANNOTATION = PREFIX + "fallback"
"""On an HorizontalPodAutoscaler: `<replicas>/<failures>`: what is started where a source stays down, and when."""

FIT_ANNOTATION = PREFIX + "when-it-does-not-fit"
"""On an HorizontalPodAutoscaler: `create` or `hold`, what a wake does whose pods have no place now."""

EXPIRES_AT_ANNOTATION = PREFIX + "expires-at"
"""On a DeviceTaintRule: RFC 3339 time after which Phalanx removes it."""

LAST_COMMAND_ANNOTATION = PREFIX + "last-command"
"""On a scaled object: `<sequence>/<id>` of the last command that took effect, so that a repeated one does not."""

GANG_LABEL = PREFIX + "gang"
"""On a batch Job or on its pods: `"true"` makes the Job a gang of its parallelism."""

VOLCANO_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
"""On a pod: the PodGroup of scheduling.volcano.sh that it belongs to."""

JOB_SET_EXCLUSIVE_ANNOTATION = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""On a JobSet or the template of one of its Jobs: label of nodes; each Job gets a domain of its own."""

JOB_SET_NODE_SELECTOR_ANNOTATION = "alpha.jobset.sigs.k8s.io/node-selector"
"""Beside the one above: the domains were assigned beforehand by labels, so that all pods are made at once."""

LWS_EXCLUSIVE_ANNOTATION = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""On a LeaderWorkerSet and its pods: label of nodes; each group gets a domain of its own."""

LWS_SUBGROUP_EXCLUSIVE_ANNOTATION = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
"""On a LeaderWorkerSet and its pods: label of nodes; each subgroup gets a domain of its own."""

OWNED_TAINT = PREFIX + "owned"
"""Key of the taint, and of the label, of nodes that no other scheduler uses; it never keeps pods of ours off."""

FIELD_MANAGER = "phalanx"
"""`fieldManager` of our writes, so that managedFields names us."""

CONDITION_INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Condition of PodGroup status in KEP-4671; we write True only after the last binding."""

CONDITION_COMMITTED = PREFIX + "Committed"
"""Our condition on PodGroups: the last transaction committed (True) or was undone (False)."""

CONDITION_REPAIRING = PREFIX + "Repairing"
"""Our condition on PodGroups: True while members are re-placed around bound ones."""

CONDITION_DEGRADED = PREFIX + "Degraded"
"""Our condition on PodGroups: True while fewer members are left than the gang needs."""

CONDITION_WAKING = PREFIX + "Waking"
"""Our condition on HPAs: True where the target can be woken, False where it cannot, Unknown while a metric is."""

CONDITION_SCALED_TO_ZERO = "ScaledToZero"
"""Condition of HPAs in KEP-2021: the HPA itself put its target to sleep. Whoever wakes it has to write False."""

ROTATE_ANNOTATION = PREFIX + "rotate"
"""On the Secret of the signer: a person asks for a new authority; taken away when there is one."""
