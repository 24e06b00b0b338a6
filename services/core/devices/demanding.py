"""From a pod to its demand: which claims it means, whether they can be used at all, and what they ask for.

The rules are those of kube-scheduler's DynamicResources plugin (PreEnqueue and PreFilter) and of KEP-5004 and KEP-5729.
"""

from collections.abc import Collection, Iterator, Mapping

from services.core.allocations import ClaimAllocation, ClaimRef
from services.core.devices.claims import ClaimBooks, own_key
from services.core.devices.demands import ClaimDemand, PodClaimUse, PodUse
from services.core.devices.extended import claim_spec_of, extended_requests
from services.core.devices.reading import decoded
from services.core.devices.reading_claims import Claim
from services.core.devices.reading_slices import read_selector
from services.core.devices.values import Ask, ClaimSpec, DeviceClassSpec, NodeRule, Request, Unreadable
from services.core.objects import Pod, Uid
from services.core.pod_devices import ContainerResource, PodClaim
from services.core.reasons import Reason, ReasonCode
from services.core.selectors import SelectorProblem, compile_selector

MAX_DEVICES = 32
"""In one claim (AllocationResultsMaxSize)."""
MAX_CONSUMERS = 256
"""Of one claim (ResourceClaimReservedForMaxSize)."""
_EVERYWHERE = NodeRule(is_all=True)

Holds = Mapping[tuple[str, str, str], ClaimAllocation]


class Demanding:
    """Reads one state of the books. `holds` are promises by `own` or `name` and what tells their claims apart."""

    def __init__(self, claims: ClaimBooks, *, holds: Holds) -> None:
        """Begin with nothing looked up."""
        self._claims = claims
        self._holds = holds
        self._problems: dict[ClaimSpec, tuple[Reason, ...]] = {}

    def of_pod(self, pod: Pod) -> PodUse:
        """Return the claims of a pod, in the order of its entries, extended resources last."""
        uses: list[PodClaimUse] = []
        problems: list[Reason] = []
        for entry in pod.devices.claims:
            if entry.is_unneeded:
                continue
            found = self._entry(pod, entry)
            if isinstance(found, Reason):
                problems.append(found)
            else:
                uses.append(found)
        asked = tuple(one for one in pod.devices.extended if self._claims.class_for(one.resource))
        if asked or pod.devices.extended_claim:
            use = self._extended(pod, asked)
            if isinstance(use, Reason):
                problems.append(use)
            else:
                uses.append(use)
        for use in uses:
            if use.demand.pinned is None:
                problems.extend(self._problems_of(use.demand.spec, name=_shown(use.ref)))
        return PodUse(uses=tuple(uses), problems=tuple(problems), extended=frozenset(one.resource for one in asked))

    def _entry(self, pod: Pod, entry: PodClaim) -> PodClaimUse | Reason:
        namespace = pod.metadata.namespace
        group = self._group_entry(pod, entry)
        name = entry.claim or (group.claim if group is not None else "")
        if not name and group is None:
            name = self._claims.owned.get((pod.metadata.uid, entry.entry), ("", ""))[1]
        if name:
            return self._claim(pod, entry, name=name, is_of_group=group is not None)
        template = self._claims.templates.get((namespace, entry.template))
        if template is None:
            text = f"ResourceClaimTemplate {namespace}/{entry.template} of pod {pod.metadata.name} does not exist"
            return _refusal(ReasonCode.CLAIM_NOT_FOUND, text, subject=entry.template)
        if isinstance(template, Unreadable):
            return template.reason
        if group is not None:
            # It is made before any pod is there, and nothing but its name would tell it apart.
            text = f"the claim for entry {entry.entry} of PodGroup {namespace}/{pod.group} is not made yet"
            return _refusal(ReasonCode.CLAIM_NOT_FOUND, text, subject=entry.entry)
        ref = ClaimRef(namespace=namespace, pod=pod.metadata.uid, entry=entry.entry)
        return self._made_or_promised(ClaimDemand(spec=template), ref)

    def _group_entry(self, pod: Pod, entry: PodClaim) -> PodClaim | None:
        """Return the equal entry of the pod's group: same name, same claim or template."""
        for one in self._claims.groups.get((pod.metadata.namespace, pod.group), ()):
            same_claim = bool(one.claim) and one.claim == entry.claim and one.template == entry.template
            if one.entry == entry.entry and (same_claim or (one.template and one.template == entry.template)):
                return one
        return None

    def _claim(self, pod: Pod, entry: PodClaim, *, name: str, is_of_group: bool) -> PodClaimUse | Reason:
        namespace = pod.metadata.namespace
        shown = f"ResourceClaim {namespace}/{name}"
        claim = self._claims.claims.get((namespace, name))
        if claim is None:
            return _refusal(
                ReasonCode.CLAIM_NOT_FOUND, f"{shown} of pod {pod.metadata.name} does not exist", subject=name
            )
        if isinstance(claim, Unreadable):
            return claim.reason
        is_own = bool(entry.template) and not is_of_group
        if is_own and not any(one.is_controller and one.uid == pod.metadata.uid for one in claim.metadata.owners):
            text = f"{shown} was not made for pod {pod.metadata.name}"
            return _refusal(ReasonCode.CLAIM_NOT_FOUND, text, subject=name)
        if claim.metadata.deleted_at is not None:
            return _refusal(ReasonCode.CLAIM_NOT_FOUND, f"{shown} is being deleted", subject=name)
        ref = ClaimRef(
            namespace=namespace,
            name=name,
            uid=claim.metadata.uid,
            pod=pod.metadata.uid if is_own else Uid(""),
            entry=entry.entry if is_own else "",
        )
        shared = None if is_own else (namespace, name, "")
        return self._known_claim(claim, ref, shared=shared, is_of_group=is_of_group, consumer=pod.metadata.uid)

    def _known_claim(
        self, claim: Claim, ref: ClaimRef, *, shared: tuple[str, str, str] | None, is_of_group: bool, consumer: Uid
    ) -> PodClaimUse | Reason:
        if claim.allocation is None:
            demand = ClaimDemand(spec=claim.spec, shared=shared)
            return self._made_or_promised(demand, ref, is_of_group=is_of_group, consumers=claim.consumers)
        if not is_of_group and consumer not in claim.consumers and len(claim.consumers) >= MAX_CONSUMERS:
            return consumers_exceeded(_shown(ref), len(claim.consumers) + 1)
        demand = ClaimDemand(spec=claim.spec, shared=shared, pinned=claim.allocation.node)
        return PodClaimUse(demand=demand, ref=ref, is_of_group=is_of_group, consumers=claim.consumers)

    def _made_or_promised(
        self, demand: ClaimDemand, ref: ClaimRef, *, is_of_group: bool = False, consumers: tuple[Uid, ...] = ()
    ) -> PodClaimUse:
        """Return the use of a claim without devices; one that an open transaction has devices for is where they are."""
        promise = self._holds.get(("own", ref.pod, ref.entry) if ref.pod else ("name", ref.namespace, ref.name))
        if promise is not None:
            demand = ClaimDemand(
                spec=demand.spec, shared=demand.shared, pinned=rule_of(promise), extended=demand.extended
            )
        return PodClaimUse(demand=demand, ref=ref, is_of_group=is_of_group, consumers=consumers)

    def _extended(self, pod: Pod, asked: tuple[ContainerResource, ...]) -> PodClaimUse | Reason:
        """Return the use of the claim that stands for extended resources: made already, or to be made."""
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        name = pod.devices.extended_claim or self._claims.owned.get((uid, ""), ("", ""))[1]
        extended = extended_requests(asked, class_for=self._claims.class_for)
        if not name:
            ref = ClaimRef(namespace=namespace, pod=uid)
            return self._made_or_promised(ClaimDemand(spec=claim_spec_of(extended), extended=extended), ref)
        claim = self._claims.claims.get((namespace, name))
        if isinstance(claim, Claim) and own_key(claim.metadata) == (uid, ""):
            ref = ClaimRef(namespace=namespace, name=name, uid=claim.metadata.uid, pod=uid)
            return self._known_claim(claim, ref, shared=None, is_of_group=False, consumer=uid)
        text = f"ResourceClaim {namespace}/{name} for the extended resources of pod {pod.metadata.name} does not exist"
        return (
            claim.reason if isinstance(claim, Unreadable) else _refusal(ReasonCode.CLAIM_NOT_FOUND, text, subject=name)
        )

    def _problems_of(self, spec: ClaimSpec, *, name: str) -> tuple[Reason, ...]:
        """Return what of a claim can never be had, whatever devices there are."""
        known = self._problems.get(spec)
        if known is None:
            known = self._problems[spec] = tuple(self._find_problems(spec))
        return tuple(
            Reason(code=one.code, message=f"{name}, {one.message}", count=1, subject=one.subject) for one in known
        )

    def _find_problems(self, spec: ClaimSpec) -> Iterator[Reason]:
        least = 0
        for request in spec.requests:
            least += min(1 if ask.count is None else ask.count for ask in request.alternatives)
            for ask in request.alternatives:
                yield from self._problems_of_ask(ask, request=request)
        if least > MAX_DEVICES:
            text = f"asks for at least {least} devices, and a claim can have {MAX_DEVICES}"
            yield _refusal(ReasonCode.CLAIM_LIMIT_EXCEEDED, text, subject="")

    def _problems_of_ask(self, ask: Ask, *, request: Request) -> Iterator[Reason]:
        where = f"request {request.name}/{ask.name}" if ask.name else f"request {request.name}"
        found = self._claims.classes.get(ask.device_class)
        if found is None:
            text = f"{where}: DeviceClass {ask.device_class!r} does not exist"
            yield _refusal(ReasonCode.DEVICE_CLASS_NOT_FOUND, text, subject=ask.device_class)
            return
        if isinstance(found, Unreadable):
            yield found.reason
            return
        for place, selectors in ((f"DeviceClass {ask.device_class}", found.selectors), (where, ask.selectors)):
            for index, expression in enumerate(selectors):
                compiled = compile_selector(expression)
                if isinstance(compiled, SelectorProblem):
                    text = f"{place}, selector {index}: {compiled.message}"
                    yield _refusal(ReasonCode.SELECTOR_NOT_SUPPORTED, text, subject=expression[:80])


def selectors_of(ask: Ask, classes: Mapping[str, DeviceClassSpec | Unreadable]) -> tuple[str, ...] | None:
    """Return the selectors of class and request in the order in which they are asked; None without such a class."""
    found = classes.get(ask.device_class)
    return (*found.selectors, *ask.selectors) if isinstance(found, DeviceClassSpec) else None


def rule_of(promise: ClaimAllocation) -> NodeRule:
    """Return where the devices of a promise can be used."""
    if promise.node:
        return NodeRule(name=promise.node)
    if promise.node_selector_json:
        return read_selector(decoded(promise.node_selector_json, at="node_selector"), at="node_selector")
    return _EVERYWHERE


def consumers_exceeded(name: str, count: int) -> Reason:
    """Return the reason for a claim that would have too many consumers."""
    text = f"{name} would have {count} consumers, and can have {MAX_CONSUMERS}"
    return _refusal(ReasonCode.CLAIM_LIMIT_EXCEEDED, text, subject=name)


def without_served(demand: ClaimDemand, *, served: Collection[str]) -> ClaimDemand:
    """Return the demand of extended resources without those that a node's device plugin serves."""
    left = tuple(one for one in demand.extended if one.resource not in served)
    return (
        demand
        if left == demand.extended
        else ClaimDemand(spec=claim_spec_of(left), extended=left, pinned=demand.pinned)
    )


def _shown(ref: ClaimRef) -> str:
    if ref.name:
        return f"ResourceClaim {ref.namespace}/{ref.name}"
    return f"claim for entry {ref.entry}" if ref.entry else "claim for extended resources"


def _refusal(code: ReasonCode, text: str, *, subject: str) -> Reason:
    return Reason(code=code, message=text, count=1, subject=subject)
