"""Finding a placement on a board: cheap ways first, then search, and at last what is known where there is none."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from services.core.judgements import NO_DOMAIN, Codes
from services.core.objects import NodeName
from services.core.policy import TopologyLevel
from services.core.solving.board import Board, Move
from services.core.solving.bounds import most_of_all
from services.core.solving.domains import Demand, Regions, anchors, bonds, relaxations, ties
from services.core.solving.exact import is_exact, solve_exactly
from services.core.solving.filling import Filling, Manner, Masks, fill
from services.core.solving.searching import Budget, Outcome, Search
from services.core.topology import TopologyRequest

MAX_SEARCHED = 300
"""Members that a search may have to place one by one: it goes as deep as that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """A member that is placed already: its node and its subgroup pin the domain of the others."""

    node: NodeName
    subgroup: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is to be found: at least `needed` members, together as the requests say.

    Without `is_searched` only what is cheap is tried: filling, and proofs by counting.
    """

    needed: int
    requests: tuple[TopologyRequest, ...] = ()
    levels: tuple[TopologyLevel, ...] = ()
    siblings: tuple[Sibling, ...] = ()
    is_searched: bool = True


@dataclass(slots=True, kw_only=True)
class Finding:
    """The best that was found, as moves, and what is known where it is not enough.

    `is_proved`: no placement of as many as are needed exists. `was_searched`: that is more than counting equal members.
    `failed_label`: the required level that no domain of fits.
    """

    moves: tuple[Move, ...] = ()
    placed: int = 0
    is_proved: bool = True
    was_searched: bool = False
    failed_label: str = ""

    def leave_out(self, count: int) -> None:
        """Count members out that cannot have their devices together: whether others could is not known."""
        if count:
            self.placed -= count
            self.is_proved, self.was_searched = False, True

    def note(self, board: Board) -> None:
        """Remember what is on the board where it is more than what was known."""
        if board.placed_count > self.placed:
            self.moves, self.placed = tuple(board.moves), board.placed_count


def find(board: Board, aim: Aim) -> Finding:
    """Return the best placement that was found; what is on the board afterwards is of no account."""
    finding = Finding()
    total = sum(one.size for one in board.classes)
    if not total:
        return finding
    steps = relaxations(_requests(aim, total=total), levels=aim.levels)
    for requests in steps:
        demands = _demands(board, requests, aim)
        if _fill_regions(board, demands, aim, finding) == total:
            return finding
    if finding.placed >= aim.needed:
        return finding
    required = [one for one in aim.requests if one.is_required]
    demands = _demands(board, required, aim)
    _search_regions(board, _widest_first([*demands, *bonds(board)]), aim, finding)
    if not finding.placed and demands:
        _fill_roomiest(board, demands, finding)
    if finding.placed < aim.needed and required and _fits_anywhere(board, aim):
        finding.failed_label = required[0].level_label
    return finding


def _requests(aim: Aim, *, total: int) -> tuple[TopologyRequest, ...]:
    """Return what is asked for; a gang that asks for nothing would rather be in one domain of the narrowest level."""
    is_asked = any(not one.subgroup for one in aim.requests)
    if is_asked or not aim.levels or (total == 1 and not aim.siblings):
        return aim.requests
    return (TopologyRequest(level_label=aim.levels[-1].node_label, is_required=False), *aim.requests)


def _demands(board: Board, requests: Iterable[TopologyRequest], aim: Aim) -> list[Demand]:
    demands = []
    for one in requests:
        groups = frozenset(group for group, known in enumerate(board.classes) if one.subgroup in {"", known.subgroup})
        if not groups:
            continue
        codes = _codes(board, one.level_label)
        siblings = [sibling for sibling in aim.siblings if one.subgroup in {"", sibling.subgroup}]
        rows = [board.snapshot.rows[sibling.node] for sibling in siblings if sibling.node in board.snapshot.rows]
        pinned = tuple(sorted({int(codes[row]) for row in rows} - {NO_DOMAIN}))
        demands.append(Demand(groups=groups, label=one.level_label, codes=codes, pinned=pinned))
    return [*_widest_first(demands), *ties(board)]


def _widest_first(demands: Iterable[Demand]) -> list[Demand]:
    """Return demands on more classes first: the others have to be inside of what they choose."""
    return sorted(demands, key=lambda one: -len(one.groups))


def _codes(board: Board, label: str) -> Codes:
    return board.snapshot.judgements.domains(label).codes[: len(board.snapshot.names)]


def _fill_regions(board: Board, demands: Sequence[Demand], aim: Aim, finding: Finding) -> int:
    """Fill region after region, and return how many members the best holds; stop at one that holds all."""
    total = sum(one.size for one in board.classes)
    levels = tuple(_codes(board, level.node_label) for level in reversed(aim.levels))
    most = 0
    anchored = anchors(board)
    for chosen in ([*demands, *anchored], demands) if anchored else (demands,):
        for region in Regions(board=board, demands=chosen, wanted=aim.needed):
            for filling in _fillings(board, masks=region.masks, levels=levels, is_part_enough=aim.needed < total):
                fill(board, filling)
                most = max(most, board.placed_count)
                finding.note(board)
                board.back_to(0)
                if most == total:
                    return most
    return most


def _fill_roomiest(board: Board, demands: Sequence[Demand], finding: Finding) -> None:
    """Note how many the domain with most room holds, where counting has shown that none holds enough."""
    for region in islice(Regions(board=board, demands=demands, wanted=1), 1):
        fill(board, Filling(order=tuple(range(len(board.classes))), masks=region.masks))
        finding.note(board)
        board.back_to(0)


def _fillings(board: Board, *, masks: Masks, levels: tuple[Codes, ...], is_part_enough: bool) -> Iterator[Filling]:
    """Yield the ways in which a region is filled: one where classes are alike, else several orders and manners."""
    order = tuple(range(len(board.classes)))
    yield Filling(order=order, masks=masks, levels=levels)
    if len(order) == 1 and not board.rules[0].steps:
        return
    yield Filling(order=order, manner=Manner.TIGHTEST, masks=masks, levels=levels)
    yield Filling(order=order, manner=Manner.EVENEST, masks=masks, levels=levels)
    if is_part_enough and len(order) > 1:
        # Not all are needed, and a hard member may have taken the room of several easy ones.
        yield Filling(order=order[::-1], masks=masks, levels=levels)
        yield Filling(order=order[::-1], manner=Manner.TIGHTEST, masks=masks, levels=levels)


def _search_regions(board: Board, demands: Sequence[Demand], aim: Aim, finding: Finding) -> None:
    """Search each region for as many as are needed; note what is found, or whether there is nothing."""
    total = sum(one.size for one in board.classes)
    counted = len(board.classes) == 1 and not board.rules[0].steps
    # Of equal members that do not hinder each other the count says it all.
    finding.was_searched = not counted
    budget = Budget.of(nodes=board.snapshot.node_count, classes=len(board.classes))
    regions = Regions(board=board, demands=demands, wanted=aim.needed)
    for region in regions:
        if counted or most_of_all(board, masks=region.masks) < aim.needed:
            continue
        outcome = _search(board, aim, masks=region.masks, budget=budget) if aim.is_searched else Outcome.GAVE_UP
        if outcome is Outcome.FOUND:
            if aim.needed < total:
                fill(board, Filling(order=tuple(range(len(board.classes))), masks=region.masks))
            finding.note(board)
            board.back_to(0)
            return
        finding.is_proved &= outcome is Outcome.NOTHING
        board.back_to(0)
    finding.is_proved &= not regions.is_cut and not (board.devices is not None and board.devices.gave_up)


def _search(board: Board, aim: Aim, *, masks: Masks, budget: Budget) -> Outcome:
    if is_exact(board):
        outcome = solve_exactly(board, needed=aim.needed, masks=masks)
        if outcome is not Outcome.GAVE_UP:
            return outcome
    if aim.needed > MAX_SEARCHED:
        return Outcome.GAVE_UP
    return Search(board, needed=aim.needed, masks=masks, budget=budget).run()


def _fits_anywhere(board: Board, aim: Aim) -> bool:
    """Tell whether enough members would fit without the required levels: then these are what fails."""
    tied = ties(board)
    for region in Regions(board=board, demands=tied, wanted=aim.needed):
        fill(board, Filling(order=tuple(range(len(board.classes))), masks=region.masks if tied else ()))
        is_enough = board.placed_count >= aim.needed
        board.back_to(0)
        if is_enough:
            return True
    return False
