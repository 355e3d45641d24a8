"""Time to change lines: the published rule of one step, and exact optimal stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from papers.worlds.waiting.lines.chances import Chance

STEPS: Final = 24  # of the rest of a budget


@dataclass(frozen=True)
class LineProspect:
    """Prospect of a job in a line: quality of the nodes, and chance of a slot.

    Attributes:
        worth: quality of its nodes to this job, from 0 to 1.
        chance: probability of a slot within some seconds from now on.
    """

    worth: float
    chance: Chance


def best_value(line: LineProspect, slack_s: float, rest_s: float, steps: int = STEPS) -> float:
    """Best value of waiting in a line: what is left of the slack, times quality, times chance (ARQ, 2.7).

    Args:
        line: line that the job waits in.
        slack_s: time until the job is worth nothing, in seconds.
        rest_s: rest of the budget, in seconds.
        steps: number of moments of the rest that are looked at.
    """
    moments = [rest_s * step / steps for step in range(1, steps + 1)]
    return max((slack_s - moment) * line.worth * line.chance(moment) for moment in moments)


def stopping_values(
    lines: Sequence[LineProspect], slack_s: float, rest_s: float, steps: int = STEPS
) -> Mapping[int, tuple[float, float]]:
    """Value of being in each line now, and of waiting there for one step before deciding anew.

    Backward induction over the rest of the budget: in each step a slot comes free with the hazard of the
    line, and is worth what is left of the slack times its quality; else the job may go to a neighbouring
    line. A job without a slot at the end of its budget is worth nothing.

    Args:
        lines: the lines that the job may be in, in their order.
        slack_s: time until the job is worth nothing, in seconds.
        rest_s: rest of the budget, in seconds.
        steps: number of steps of the rest.

    Returns:
        By position in `lines`: (value of being there, value of staying for the next step).
    """
    count = len(lines)
    moments = [rest_s * step / steps for step in range(steps + 1)]
    survival = [[1.0 - line.chance(moment) for moment in moments] for line in lines]
    value, stay = [0.0] * count, [0.0] * count
    for step in range(steps - 1, -1, -1):
        left_s = max(0.0, slack_s - moments[step + 1])
        for at, line in enumerate(lines):
            before, after = survival[at][step], survival[at][step + 1]
            hazard = 1.0 - after / before if before > 0 else 1.0
            stay[at] = hazard * left_s * line.worth + (1.0 - hazard) * value[at]
        # A change of line takes no time, so a job may pass through several at one moment.
        value = list(stay)
        for at in range(1, count):
            value[at] = max(value[at], value[at - 1])
        for at in range(count - 2, -1, -1):
            value[at] = max(value[at], value[at + 1])
    return {at: (value[at], stay[at]) for at in range(count)}
