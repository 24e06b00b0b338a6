"""What a gang wants of where its members are to each other: the value that flows from grouping to the solver.

A level is named by the label of its nodes, as `topology.kubernetes.io/zone`; nodes with the same value are one domain,
and a node without the label is in none. `services.core.gangs` reads the requests from groups and annotations;
`services.core.solver` tries whole domains for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.core.objects import Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """All members of a subgroup in one domain of a level.

    `subgroup` is empty for the whole gang. A request that `is_required` refuses every other placement; else a wider
    level, and at last several domains, are taken where one does not suffice.
    """

    level_label: str
    is_required: bool = True
    subgroup: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyWish:
    """The requests of a gang, and to which subgroup its members belong; a member that is not named is in none."""

    requests: tuple[TopologyRequest, ...] = ()
    subgroups: Mapping[Uid, str] = field(default_factory=dict)


NO_WISH = TopologyWish()
