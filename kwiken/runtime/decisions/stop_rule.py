"""When a fan-out has heard enough. Pure: answers and moments in, done or not out.

Without a policy every shard must answer. With one, Kwiken's dynamic rule (section 5.3): stop once the
cut-off has passed, or once `wait` has passed since a share `progress` of the shards answered, whichever is
first. The rule only asks: whoever holds the account of lost utility grants the stop or has it wait on.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Any, Final

from kwiken.plan import PartialPolicy

WAIT: Final = 0
DONE: Final = 1
FAIL: Final = 2
STOP: Final = 3  # it may stop here: answer by `stop` or `wait_on`


class Gather:
    """The answers of one visit.

    Args:
        shards: how many.
        policy: the stop rule; None to insist on every shard.
        start: moment of the visit's start, seconds.
        patient: whether every shard is waited for all the same, though one that fails may be missing.

    Attributes:
        values: answers in shard order, None where there is none.
        due: the next moment at which `tick` is wanted; infinite for none, in the past once it could stop but
            has nothing to show yet.
        error: why the visit failed; None otherwise, and once it is taken.
    """

    __slots__ = (
        "_ask_at",
        "_enough",
        "_heard",
        "_left",
        "_policy",
        "_stop_at",
        "_wait",
        "due",
        "error",
        "finished",
        "values",
    )

    def __init__(
        self, shards: int, policy: PartialPolicy | None, start: float, *, patient: bool = False
    ) -> None:
        self.values: list[Any] = [None] * shards
        self.error: Exception | None = None
        self.finished = False
        self._left = shards
        self._heard = 0
        self._policy = policy
        self._enough = shards + 1
        self._wait = inf
        self._stop_at = inf  # when the rule would stop
        self._ask_at = shards  # the most shards that may be missing for it to ask
        if policy is not None and not patient:
            # Guarded against the rounding of products such as 0.07 * 100.
            self._enough = max(1, ceil(round(policy.progress * shards, 9)))
            if policy.cutoff_ms is not None:
                self._stop_at = start + policy.cutoff_ms / 1000
            if policy.wait_ms is not None:
                self._wait = policy.wait_ms / 1000
        self.due = self._stop_at

    @property
    def complete(self) -> bool:
        """Whether every shard answered."""
        return self._heard == len(self.values)

    def answered(self, shard: int, value: Any, now: float) -> int:
        """A shard answered: WAIT, STOP or DONE."""
        if self.finished:
            return WAIT
        self.values[shard] = value
        self._heard += 1
        self._left -= 1
        if self._left == 0:
            self.finished = True
            return DONE
        if self._heard == self._enough and now + self._wait < self._stop_at:
            self.due = self._stop_at = now + self._wait
        return self.tick(now)

    def failed(self, error: Exception) -> int:
        """A shard failed for good: FAIL where it cannot be missed, else WAIT or DONE."""
        if self.finished:
            return WAIT
        self._left -= 1
        if self._policy is None or (self._left == 0 and self._heard == 0):
            self.finished = True
            self.error = error
            return FAIL
        if self._left == 0:
            self.finished = True
            return DONE
        return WAIT

    def tick(self, now: float) -> int:
        """The timer fired: STOP if anything was heard; with nothing to show it waits for a first answer."""
        if self.finished or now < self._stop_at or self._heard == 0 or self._left > self._ask_at:
            return WAIT
        return STOP

    def stop(self) -> None:
        """The stop was granted."""
        self.finished = True

    def take_error(self) -> Exception | None:
        """Give the error away: kept here too, its traceback's frames would hold it in a cycle."""
        error, self.error = self.error, None
        return error

    def wait_on(self) -> None:
        """It was not: ask again only once half as many are missing, as what they lose is less then."""
        self._ask_at = self._left // 2
        self.due = inf
