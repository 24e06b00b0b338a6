"""How long devices of a proposal are held."""

from dataclasses import dataclass, field

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceResult
from services.core.claim_promises import ClaimPromises, claims_of, key_of
from services.core.objects import Metadata, Owner, TransactionId, Uid

T1, T2 = TransactionId("t1"), TransactionId("t2")


def allocation(
    name: str = "c", *, consumers: tuple[str, ...] = ("a",), device: str = "gpu-0", pod: str = ""
) -> ClaimAllocation:
    """Return a claim that gets one device; with `pod` it is made from a template, and does not exist yet."""
    ref = ClaimRef(namespace="ns", pod=Uid(pod), entry=name) if pod else ClaimRef(namespace="ns", name=name)
    return ClaimAllocation(
        ref=ref,
        consumers=tuple(Uid(one) for one in consumers),
        results=(DeviceResult(request="gpu", driver="d", pool="n1", device=device),),
    )


@dataclass
class Books:
    """Keeps what is held, and what the stream shows."""

    held: dict[ClaimRef, ClaimAllocation] = field(default_factory=dict)
    seen: list[ClaimAllocation] = field(default_factory=list)

    def promises(self) -> ClaimPromises:
        """Return promises that are charged here."""
        return ClaimPromises(
            charge=lambda one: self.held.update({one.ref: one}),
            release=self.held.__delitem__,
            is_allocated=self.seen.__contains__,
        )


class TestHolding:
    """Devices that are promised."""

    def test_they_are_held_until_the_claim_is_seen_with_them(self) -> None:
        """Whatever else is seen of the claim before."""
        books = Books()
        promises = books.promises()
        promises.hold(one := allocation(), transaction=T1)
        promises.seen(Metadata(namespace="ns", name="c"))
        assert list(books.held) == [one.ref]
        books.seen.append(one)
        promises.seen(Metadata(namespace="ns", name="c"))
        assert not books.held

    def test_a_claim_that_is_made_later_is_known_by_its_pod(self) -> None:
        """Its owner and annotation say which entry it is for."""
        books = Books()
        promises = books.promises()
        promises.hold(one := allocation("gpu", pod="a"), transaction=T1)
        books.seen.append(one)
        owner = Owner(kind="Pod", name="a", uid=Uid("a"), is_controller=True)
        entry = {"resource.kubernetes.io/pod-claim-name": "gpu"}
        promises.seen(Metadata(namespace="ns", name="a-gpu-x", owners=(owner,), annotations=entry))
        assert not books.held

    def test_what_the_stream_shows_already_is_not_held(self) -> None:
        """As after a restart, where the cluster may be read before the decisions."""
        books = Books(seen=[allocation()])
        books.promises().hold(allocation(), transaction=T1)
        assert not books.held

    def test_a_claim_that_has_its_devices_already_is_not_held(self) -> None:
        """It has no results: only its consumers are reserved."""
        books = Books()
        books.promises().hold(ClaimAllocation(ref=ClaimRef(namespace="ns", name="c"), consumers=()), transaction=T1)
        assert not books.held

    def test_a_later_promise_replaces_the_one_before(self) -> None:
        """A repair may give a claim other devices."""
        books = Books()
        promises = books.promises()
        promises.hold(allocation(), transaction=T1)
        promises.hold(allocation(device="gpu-1"), transaction=T1)
        assert [one.results[0].device for one in books.held.values()] == ["gpu-1"]


class TestRelease:
    """Devices that are promised no more."""

    def test_the_last_consumer_frees_them(self) -> None:
        """A claim that others use still stays."""
        books = Books()
        promises = books.promises()
        promises.hold(allocation(consumers=("a", "b")), transaction=T1)
        assert not promises.leave([Uid("a")])
        assert books.held
        assert promises.leave([Uid("b")])
        assert not books.held

    def test_an_end_frees_all_but_those_of_kept_members(self) -> None:
        """And nothing of other transactions."""
        books = Books()
        promises = books.promises()
        promises.hold(allocation("kept", consumers=("a",)), transaction=T1)
        promises.hold(allocation("undone", consumers=("b",)), transaction=T1)
        promises.hold(allocation("other", consumers=("c",)), transaction=T2)
        assert promises.end(T1, kept={Uid("a")})
        assert {ref.name for ref in books.held} == {"kept", "other"}
        assert {one.ref.name for one in promises.held()} == {"kept", "other"}

    def test_a_claim_that_is_gone_holds_nothing(self) -> None:
        """Deleted before it was allocated."""
        books = Books()
        promises = books.promises()
        promises.hold(allocation(), transaction=T1)
        assert promises.gone(Metadata(namespace="ns", name="c"))
        assert not books.held
        assert not promises.gone(Metadata(namespace="ns", name="c"))


def test_claims_are_chosen_by_their_consumers() -> None:
    """One consumer is enough."""
    one, other = allocation("one", consumers=("a", "b")), allocation("other", consumers=("c",))
    assert claims_of((one, other), members={Uid("b")}) == (one,)
    assert key_of(one.ref) == ("ns", "one")
