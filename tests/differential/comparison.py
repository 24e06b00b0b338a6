"""Compares the answers about one gang, and counts them by feature."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.differential.checker import Violation, violations
from tests.differential.features import Feature
from tests.differential.native import Observation
from tests.differential.ours import Answer, Planner


class Agreement(StrEnum):
    """Who placed the gang."""

    BOTH_YES = "both yes"
    BOTH_NO = "both no"
    ONLY_OURS = "only ours"
    ONLY_THEIRS = "only theirs"


_AGREEMENTS = {
    (True, True): Agreement.BOTH_YES,
    (False, False): Agreement.BOTH_NO,
    (True, False): Agreement.ONLY_OURS,
    (False, True): Agreement.ONLY_THEIRS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both answers about one gang, and what the checker says of each."""

    observation: Observation
    answer: Answer
    agreement: Agreement
    ours_broken: tuple[Violation, ...]
    theirs_broken: tuple[Violation, ...]
    overlooked: Mapping[str, str] | None
    """A placement that nobody found, where all were tried one by one: the checker has nothing against it."""

    @property
    def name(self) -> str:
        """For people and file names."""
        return f"seed-{self.observation.seed}-{self.observation.case.name}"

    @property
    def problems(self) -> tuple[str, ...]:
        """What must not be; empty where all is well."""
        problems = [
            f"{whose} breaks {one.rule}: pod {one.pod} on node {one.node}: {one.message}"
            for whose, broken in (
                ("our placement", self.ours_broken),
                ("kube-scheduler's placement", self.theirs_broken),
            )
            for one in broken
        ]
        if self.agreement is Agreement.ONLY_THEIRS:
            problems.append(
                f"only kube-scheduler places it: {dict(self.observation.nodes)}; "
                f"ours: {dict(self.answer.nodes)} {'; '.join(self.answer.reasons)}"
            )
        if self.overlooked is not None:
            problems.append(f"a placement exists: {dict(self.overlooked)}; ours: {'; '.join(self.answer.reasons)}")
        return tuple(problems)

    @property
    def are_fewer(self) -> bool:
        """Whether both place the gang, but we fewer members of it. A weakness, and no mistake."""
        is_placed = self.agreement is Agreement.BOTH_YES
        return is_placed and len(self.answer.nodes) < len(self.observation.nodes)


def compare(observation: Observation, planner: Planner) -> Comparison:
    """Ask our side, and have both answers checked."""
    answer = planner(observation)
    wanted = observation.case.wanted
    agreement = _AGREEMENTS[len(answer.nodes) >= wanted, observation.is_placed]
    return Comparison(
        observation=observation,
        answer=answer,
        agreement=agreement,
        ours_broken=_broken(observation, answer.nodes),
        theirs_broken=_broken(observation, observation.nodes),
        overlooked=_overlooked(observation) if agreement is Agreement.BOTH_NO else None,
    )


def _overlooked(observation: Observation) -> Mapping[str, str] | None:
    """A placement of all members that carry no gate, where there are few enough to try each."""
    nodes = [item["metadata"]["name"] for item in observation.objects if item["kind"] == "Node"]
    names = [pod["metadata"]["name"] for pod in observation.members if not pod["spec"].get("schedulingGates")]
    if len(names) < observation.case.wanted or len(nodes) ** len(names) > _MOST_PLACEMENTS_TO_TRY:
        return None
    for chosen in itertools.product(nodes, repeat=len(names)):
        placement = dict(zip(names, chosen, strict=True))
        if not _broken(observation, placement):
            return placement
    return None


def _broken(observation: Observation, nodes: Mapping[str, str]) -> tuple[Violation, ...]:
    # The basic policy lets each member run as soon as it can.
    wanted = 1 if Feature.BASIC_POLICY in observation.case.features else observation.case.wanted
    return violations(observation.objects, members=observation.members, nodes=nodes, wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `seeds` have a gang with the feature."""

    name: str
    seeds: int
    counts: Mapping[Agreement, int]

    @property
    def gangs(self) -> int:
        """Gangs with the feature."""
        return sum(self.counts.values())


_ENOUGH_SEEDS = 300
_MOST_PLACEMENTS_TO_TRY = 700
"""About half of the refused gangs have no more than these."""
_LEAST_SHARE = 0.2
_REFUSED = (0.3, 0.7)


def refused_share(comparisons: Iterable[Comparison]) -> float:
    """The part of the gangs that kube-scheduler does not place."""
    found = tuple(comparisons)
    return 1 - sum(one.observation.is_placed for one in found) / len(found)


def shortcomings(comparisons: Iterable[Comparison]) -> tuple[str, ...]:
    """Why a long run says less than it should; empty for a short one, where chance decides."""
    found = tuple(comparisons)
    everything, *features = rows(found)
    if everything.seeds < _ENOUGH_SEEDS:
        return ()
    least, most = _REFUSED
    share = refused_share(found)
    problems = [
        f"{row.name} is in {row.seeds} of {everything.seeds} seeds, expected {_LEAST_SHARE:.0%}"
        for row in features
        if row.seeds < _LEAST_SHARE * everything.seeds
    ]
    if not least <= share <= most:
        problems.append(f"kube-scheduler refuses {share:.0%} of the gangs, expected {least:.0%} to {most:.0%}")
    return tuple(problems)


def rows(comparisons: Iterable[Comparison]) -> tuple[Row, ...]:
    """All gangs first, then those of each feature."""
    found = tuple(comparisons)
    return (
        _row("all", found),
        *(_row(feature.value, [one for one in found if feature in one.observation.features]) for feature in Feature),
    )


def _row(name: str, comparisons: Iterable[Comparison]) -> Row:
    found = tuple(comparisons)
    return Row(
        name=name,
        seeds=len({one.observation.seed for one in found}),
        counts={kind: sum(one.agreement is kind for one in found) for kind in Agreement},
    )
