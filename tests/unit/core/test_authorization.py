"""Who may call what: nothing that no entry says."""

import pytest

from services.core.authorization import Grant, identities_in, may_call, problems_of_authorization

PLAN, EXPLAIN = "/phalanx.placement.v1.PlacementService/Plan", "/phalanx.placement.v1.PlacementService/Explain"
TRAINER = "spiffe://phalanx.dev/ns/team-a/sa/trainer"


def test_nobody_may_do_anything_by_default() -> None:
    """Neither somebody known nor somebody without a name."""
    assert not may_call((), identities=(TRAINER,), method=PLAN)
    assert not may_call((Grant(identity=TRAINER),), identities=(TRAINER,), method=PLAN)
    assert not may_call((Grant(identity=TRAINER, calls=(PLAN[1:],)),), identities=(), method=PLAN)


def test_an_entry_allows_its_methods_to_its_identity() -> None:
    """Not a method more, and nobody else; a star is for the methods of one service."""
    one = (Grant(identity=TRAINER, calls=(PLAN[1:],)),)
    assert may_call(one, identities=(TRAINER,), method=PLAN)
    assert not may_call(one, identities=(TRAINER,), method=EXPLAIN)
    assert not may_call(one, identities=(TRAINER + "2", TRAINER.upper()), method=PLAN)
    every = (Grant(identity=TRAINER, calls=("phalanx.placement.v1.PlacementService/*",)),)
    assert may_call(every, identities=(TRAINER,), method=EXPLAIN)
    assert not may_call(every, identities=(TRAINER,), method="/phalanx.placement.v1.PlacementService2/Plan")
    assert not may_call(every, identities=(TRAINER,), method="/grpc.health.v1.Health/Check")


@pytest.mark.parametrize(
    ("names", "identities"),
    [
        ((TRAINER, "trainer.team-a.svc", "10.0.0.1"), (TRAINER,)),
        (("trainer.example.com", "*.example.com", "10.0.0.1", "fd00::1"), ("trainer.example.com",)),
        (("10.0.0.1",), ()),
        ((), ()),
    ],
)
def test_a_certificate_stands_for_its_uri_or_else_its_names(
    names: tuple[str, ...], identities: tuple[str, ...]
) -> None:
    """A server's DNS names give a workload no second identity; addresses and stars are nobody."""
    assert identities_in(names) == identities


def test_one_entry_for_each_identity() -> None:
    """Rights in two places are overlooked in one of them; an address is nobody."""
    found = dict(problems_of_authorization((Grant(identity="a"), Grant(identity="a"), Grant(identity="10.0.0.1"))))
    assert list(found) == [(1, "identity"), (2, "identity")]
