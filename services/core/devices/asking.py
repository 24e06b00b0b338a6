"""Claims made ready for a search: which wishes they have of devices, and which constraints hold for whose."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.core.devices.claims import ClaimBooks
from services.core.devices.demanding import selectors_of, without_served
from services.core.devices.demands import DeviceDemand, SharedKey
from services.core.devices.fields import Wish, wish_for
from services.core.devices.searching import Choice, Task
from services.core.devices.values import Ask, AttributeConstraint, AttributeName, ClaimSpec

Reach = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """Some demands made ready to be asked of nodes: wishes, attributes, and the claims of each demand as tasks.

    There is one for the same demands, so that it compares by identity.
    """

    wishes: tuple[Wish, ...]
    attributes: tuple[AttributeName, ...]
    own: tuple[tuple[Task, ...], ...]
    shared: tuple[tuple[tuple[SharedKey, Task], ...], ...]


class Asking:
    """Makes questions of demands: equal asks with the same reach become one wish."""

    def __init__(self, claims: ClaimBooks) -> None:
        """Begin with nothing asked."""
        self._claims = claims
        self._wishes: dict[tuple[Wish, Reach], int] = {}
        self._attributes: dict[AttributeName, int] = {}

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """The wishes so far, by number."""
        return tuple(wish for wish, _ in self._wishes)

    @property
    def reaches(self) -> tuple[Reach, ...]:
        """Where the devices of each wish may be: bits by pool."""
        return tuple(reach for _, reach in self._wishes)

    @property
    def attributes(self) -> tuple[AttributeName, ...]:
        """The attributes of constraints so far, by number."""
        return tuple(self._attributes)

    def question(self, demands: Sequence[DeviceDemand], *, served: frozenset[str]) -> Question:
        """Return the question."""
        own, shared = [], []
        for demand in demands:
            claims = [without_served(one, served=served) for one in demand.claims if one.pinned is None]
            own.append(tuple(self.task(one.spec) for one in claims if one.shared is None))
            shared.append(tuple((one.shared, self.task(one.spec)) for one in claims if one.shared is not None))
        return Question(wishes=self.wishes, attributes=self.attributes, own=tuple(own), shared=tuple(shared))

    def task(self, spec: ClaimSpec, *, reach: Reach = ()) -> Task:
        """Return a claim as a task."""
        return Task(
            requests=tuple(
                tuple(self._choice(ask, spec=spec, request=request.name, reach=reach) for ask in request.alternatives)
                for request in spec.requests
            ),
            constraints=tuple(
                (self._attributes.setdefault(one.attribute, len(self._attributes)), one.is_distinct)
                for one in spec.constraints
            ),
        )

    def _choice(self, ask: Ask, *, spec: ClaimSpec, request: str, reach: Reach) -> Choice:
        wish = wish_of(ask, self._claims) or wish_for(ask, ("false",))
        return Choice(
            wish=self._wishes.setdefault((wish, reach), len(self._wishes)),
            count=ask.count,
            constraints=tuple(
                number for number, one in enumerate(spec.constraints) if _concerns(one, request=request, name=ask.name)
            ),
            is_admin=ask.is_admin,
        )


def _concerns(constraint: AttributeConstraint, *, request: str, name: str) -> bool:
    return (
        not constraint.requests
        or request in constraint.requests
        or (bool(name) and f"{request}/{name}" in constraint.requests)
    )


def wish_of(ask: Ask, claims: ClaimBooks) -> Wish | None:
    """Return what is asked of devices, with the selectors of the class; None where the class is not known."""
    selectors = selectors_of(ask, claims.classes)
    return None if selectors is None else wish_for(ask, selectors)
