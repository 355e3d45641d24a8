"""Budget of waiting of a job: what its target leaves after its measurement."""

from __future__ import annotations

import math
from enum import StrEnum

from kwiken.base.errors import InputError


class Slack(StrEnum):
    """Time from which a job's value falls as it waits.

    Attributes:
        STRICT: the budget itself, so that a wait counts fully.
        PRINTED: the time in which the job has to be complete, as the source prints it; a wait hardly counts.
    """

    STRICT = "strict"
    PRINTED = "printed"


def waiting_budget_s(work_s: float, loss: float, measuring_s: float = 0.0) -> float:
    """Time that a job may wait, in seconds; below 0 where its measurement took more than its target leaves.

    Args:
        work_s: expected time of the job's work alone on the best node, in seconds, above 0.
        loss: share of that time by which it may be late, 0 or more.
        measuring_s: time that measuring and classifying it took, in seconds, 0 or more.

    Raises:
        InputError: a number outside its range.
    """
    if not (math.isfinite(work_s) and work_s > 0):
        raise InputError(f"must be finite and above 0, not {work_s}", where="work_s")
    for name, value in (("loss", loss), ("measuring_s", measuring_s)):
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"must be finite and 0 or more, not {value}", where=name)
    return loss * work_s - measuring_s


def slack_s(work_s: float, loss: float, measuring_s: float = 0.0, kind: Slack = Slack.STRICT) -> float:
    """Time from which the value of a job falls as it waits, in seconds.

    Args:
        work_s: expected time of the job's work alone on the best node, in seconds, above 0.
        loss: share of that time by which it may be late, 0 or more.
        measuring_s: time that measuring and classifying it took, in seconds, 0 or more.
    """
    budget_s = waiting_budget_s(work_s, loss, measuring_s)
    return budget_s if kind is Slack.STRICT else work_s + budget_s
