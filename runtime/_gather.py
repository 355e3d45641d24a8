"""When a fan-out has heard enough. Pure: answers and moments in, done or not out.

Without a policy every shard must answer. With one, Kwiken's dynamic rule (section 5.3): stop once the
cut-off has passed, or once `wait` has passed since a share `progress` of the shards answered, whichever is
first.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Any, Final

from kwiken import PartialPolicy

WAIT: Final = 0
DONE: Final = 1
FAIL: Final = 2


class Gather:
    """The answers of one visit.

    Args:
        shards: how many.
        policy: the stop rule; None to insist on every shard.
        start: moment of the visit's start, seconds.

    Attributes:
        values: answers in shard order, None where there is none.
        due: the next moment at which `tick` is wanted; infinite for none.
        error: the last error of a shard.
        failed_whole: whether the visit failed, rather than a shard or two.
    """

    __slots__ = (
        "_cutoff",
        "_enough",
        "_heard",
        "_left",
        "_policy",
        "due",
        "error",
        "failed_whole",
        "finished",
        "values",
    )

    def __init__(self, shards: int, policy: PartialPolicy | None, start: float) -> None:
        self.values: list[Any] = [None] * shards
        self.error: Exception | None = None
        self.failed_whole = False
        self.finished = False
        self._left = shards
        self._heard = 0
        self._policy = policy
        self.due = inf
        self._enough = shards + 1
        if policy is not None:
            self._enough = max(1, ceil(policy.progress * shards))
            if policy.cutoff_ms is not None:
                self.due = start + policy.cutoff_ms / 1000

    @property
    def complete(self) -> bool:
        """Whether every shard answered."""
        return self._heard == len(self.values)

    def answered(self, shard: int, value: Any, now: float) -> int:
        """A shard answered: WAIT or DONE."""
        if self.finished:
            return WAIT
        self.values[shard] = value
        self._heard += 1
        self._left -= 1
        if self._heard == self._enough and self._policy is not None and self._policy.wait_ms is not None:
            self.due = min(self.due, now + self._policy.wait_ms / 1000)
        if self._left == 0 or now >= self.due:
            self.finished = True
            return DONE
        return WAIT

    def failed(self, error: Exception) -> int:
        """A shard failed for good: FAIL where it cannot be missed, else WAIT or DONE."""
        if self.finished:
            return WAIT
        self._left -= 1
        self.error = error
        if self._policy is None or (self._left == 0 and self._heard == 0):
            self.failed_whole = self.finished = True
            return FAIL
        if self._left == 0:
            self.finished = True
            return DONE
        return WAIT

    def tick(self, now: float) -> int:
        """The timer fired: DONE if anything was heard; with nothing to show it waits for a first answer."""
        if self.finished or now < self.due or self._heard == 0:
            return WAIT
        self.finished = True
        return DONE
