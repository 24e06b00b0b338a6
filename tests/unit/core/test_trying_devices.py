"""How large a placement with devices may be."""

from services.contracts.decision_codec import encode_decision
from services.core.decisions import Decision, Proposed
from services.core.gangs import Gang, assemble, group_gang_id
from services.core.inventory import Inventory
from services.core.objects import TransactionId
from services.core.pod_devices import PodClaim, PodDevices
from services.core.reasons import ReasonCode
from services.core.repairing import assignments_of
from services.core.solver import Placement
from services.core.trying import MAX_PLACEMENT_BYTES, Hopeless, try_gang
from tests import device_builders as dra
from tests.builders import NAMESPACE, START, node, pod, pod_group, seconds

LONG = "a" * 60


def tried(count: int, *, devices: int, name: str = LONG) -> tuple[Gang, Placement | Hopeless]:
    """Try a gang on one large node; each member claims so many devices, whose names begin with `name`."""
    known = Inventory()
    known.put_node(node("n1", gpus=0, pods=count))
    known.devices.put(dra.device_class())
    known.devices.put(dra.template("many", dra.request(LONG, count=devices), namespace=NAMESPACE))
    for number in range(count * devices // 128 + 1):
        names = [dra.device(f"{name}-{number}-{index}") for index in range(128)]
        known.devices.put(dra.resource_slice(f"s-{number}", names, node="n1", pool=f"{LONG}-{number}"))
    uses = PodDevices(claims=(PodClaim(entry=LONG, template="many"),))
    members = [pod(f"w-{index}", group="g", gpus=0, devices=uses) for index in range(count)]
    group = pod_group("g", min_count=count)
    gang = assemble(group_gang_id(group), pods=members, group=group)
    answer = try_gang(gang, known.snapshot(members))
    assert isinstance(answer, Placement | Hopeless), answer
    return gang, answer


def test_what_is_counted_is_at_least_what_is_told() -> None:
    """A placement that passes is no larger than the limit, as a message."""
    gang, answer = tried(40, devices=8)
    assert isinstance(answer, Placement)
    event = Proposed(
        revision=1,
        deadline=START + seconds(60),
        min_count=40,
        assignments=assignments_of(answer.nodes, pods=gang.open),
        claims=answer.claims,
    )
    decision = Decision(gang=gang.id, event=event, decided_at=START, transaction=TransactionId("t"))
    assert len(encode_decision(decision)) < MAX_PLACEMENT_BYTES


def test_devices_count_for_the_size_of_a_placement() -> None:
    """Where they alone are more than one message may hold, the gang is told so."""
    _, answer = tried(70, devices=32, name="a" * 2_000)
    assert isinstance(answer, Hopeless)
    assert [one.code for one in answer.reasons] == [ReasonCode.GANG_TOO_LARGE]
