"""Settings of the lines, and the records that go in and come out of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kwiken.base.errors import InputError

LOOK_AHEAD: Final = 8  # jobs of a line that are tried before the rest of the line waits
TEST_S: Final = 1.0  # between two tests of whether a job changes its line
PATIENCE_S: Final = 3600.0  # budget of a job without one
MAX_NAME: Final = 200  # characters of the name of a job or a node


class SwitchRule(StrEnum):
    """Rule for changes from a line to a neighbouring one.

    Attributes:
        PUBLISHED: when the best value of the other line exceeds the best value of staying (ARQ, 2.7).
        OPTIMAL: when leaving is worth more than waiting one more step and deciding then.
        AT_ONCE: as soon as another line may be entered.
        NEVER: not before the budget is spent.
    """

    PUBLISHED = "published"
    OPTIMAL = "optimal"
    AT_ONCE = "at-once"
    NEVER = "never"


class LineOrder(StrEnum):
    """Order inside a line; a higher priority always goes first.

    Attributes:
        ARRIVAL: first come, first served.
        SHORTEST: least expected work first; a job that must start now to keep its budget is not passed.
    """

    ARRIVAL = "arrival"
    SHORTEST = "shortest"


class BudgetClock(StrEnum):
    """Moment from which on waiting is charged to a job's budget.

    Attributes:
        ARRIVAL: the job's arrival.
        ROOM: the first moment at which a first-come-first-served line would have given it a free slot; what
            comes before is want of nodes, what comes after is the price of quality. Counted in slots.
        REPORTED: the moment that the caller reports for the job, who knows more of room than slots.
    """

    ARRIVAL = "arrival"
    ROOM = "room"
    REPORTED = "reported"


@dataclass(frozen=True)
class LineSettings:
    """Settings of the service of lines.

    Attributes:
        rule: when a job leaves its line before its budget is spent.
        order: order of the jobs inside a line.
        clock: moment from which on waiting is charged.
        look_ahead: jobs of one line that are tried when its head does not fit, at least 1.
        test_s: time between two tests of whether a job changes its line, in seconds, above 0.
        sure: probability of a slot within the rest of the budget, below which a job leaves for a line that
            still offers as much; above 0 and below 1.
        patience_s: budget of a job without one, in seconds, above 0 and finite.
    """

    rule: SwitchRule = SwitchRule.PUBLISHED
    order: LineOrder = LineOrder.ARRIVAL
    clock: BudgetClock = BudgetClock.ROOM
    look_ahead: int = LOOK_AHEAD
    test_s: float = TEST_S
    sure: float = 0.95
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        """Refuse what no line can be served by.

        Raises:
            InputError: a number outside its range.
        """
        if self.look_ahead < 1:
            raise InputError(f"must be 1 or more, not {self.look_ahead}", where="look_ahead")
        for name in ("test_s", "patience_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"must be a finite number above 0, not {value}", where=name)
        if not 0 < self.sure < 1:
            raise InputError(f"must be above 0 and below 1, not {self.sure}", where="sure")


@dataclass(frozen=True)
class WaitingJob:
    """Job or request that may have to wait.

    Attributes:
        name: name that no other job of the lines has.
        quality: quality of node that the job needs, from 0 (any will do) to 100.
        budget_s: time that it may wait, in seconds; infinite for none stated, 0 or less to start at once.
        slack_s: time from which its value falls as it waits, in seconds; None for its budget.
        work_s: expected time of its work, in seconds, 0 or more; its place where the shortest goes first.
        priority: larger goes first inside a line.
    """

    name: str
    quality: float
    budget_s: float = math.inf
    slack_s: float | None = None
    work_s: float = 0.0
    priority: int = 0

    def __post_init__(self) -> None:
        """Refuse values that no line can order.

        Raises:
            InputError: a name that is empty or too long, or a number outside its range.
        """
        if not 0 < len(self.name) <= MAX_NAME:
            raise InputError(f"a name has 1 to {MAX_NAME} characters", where="name")
        where = f"job {self.name!r}"
        if not 0 <= self.quality <= 100:  # noqa: PLR2004 - percent
            raise InputError(f"quality must be from 0 to 100, not {self.quality}", where=where)
        if math.isnan(self.budget_s):
            raise InputError("budget_s must be a number", where=where)
        if self.slack_s is not None and not math.isfinite(self.slack_s):
            raise InputError(f"slack_s must be finite, not {self.slack_s}", where=where)
        if not (math.isfinite(self.work_s) and self.work_s >= 0):
            raise InputError(f"work_s must be finite and 0 or more, not {self.work_s}", where=where)


@dataclass(frozen=True)
class SlotOffer:
    """Node that was taken for a job, and what it offers after that.

    Attributes:
        unit: name of the node.
        quality: quality that it offers to one more job, from 0 to 100.
        free: number of slots that are still free, 0 or more.
    """

    unit: str
    quality: float
    free: int


class MoveReason(StrEnum):
    """Reason of a change to another line.

    Attributes:
        ROOM_ABOVE: nobody waits above, and a better node has room now.
        BETTER_CHANCE: the other line promises more.
        BUDGET: the rest of the budget is just enough for the other line.
        SPENT: the budget is spent: the job takes any node.
    """

    ROOM_ABOVE = "room above"
    BETTER_CHANCE = "better chance"
    BUDGET = "budget"
    SPENT = "budget spent"


@dataclass(frozen=True)
class LineMove:
    """Change of a job's line.

    Attributes:
        at_s: moment of the change, in seconds.
        from_line: number of the line that it left.
        to_line: number of the line that it entered.
    """

    job: str
    at_s: float
    from_line: int
    to_line: int
    reason: MoveReason


@dataclass(frozen=True)
class LineStart:
    """Start of a job that waited.

    Attributes:
        unit: name of the node that it started on.
        at_s: moment of the start, in seconds.
        line: number of the line that it left.
        pool: number of the pool that the node was in.
        waited_s: time since its arrival, in seconds.
        charged_s: part of that which was charged to its budget, in seconds.
        late: whether its budget was spent before a node had room.
        moves: changes of its line, in their order.
    """

    job: str
    unit: str
    at_s: float
    line: int
    pool: int
    waited_s: float
    charged_s: float
    late: bool
    moves: tuple[LineMove, ...]
