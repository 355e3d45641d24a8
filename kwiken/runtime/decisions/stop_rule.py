"""Stop rule of one fan-out: decides when enough shards have answered.

Pure: answers and moments in, steps out. Without a policy every shard must answer. With a policy, Kwiken's
dynamic rule applies (section 5.3): stop once the cut-off has passed, or `wait` after a share `progress` of
the shards answered, whichever is first. The rule only asks to stop: the owner of the account for lost utility
grants the stop (`stop`) or denies it (`wait_on`).
"""

from __future__ import annotations

from math import ceil, inf
from typing import Any, Final

from kwiken.model.plan.plan import PartialPolicy

WAIT: Final = 0
DONE: Final = 1
FAIL: Final = 2
STOP: Final = 3  # the fan-out could stop here: reply with `stop` or `wait_on`


class FanOut:
    """Answers of one fan-out so far, and its stop rule.

    Args:
        shards: number of shards, 1 or more.
        policy: stop rule of the plan; None to insist on every shard.
        start: start of the fan-out, seconds.
        wait_for_all: if true, the rule never stops early, though a shard that fails may be missing.

    Attributes:
        values: answers in shard order, None where there is none.
        due: next moment at which `tick` must be called; infinite for never, in the past once the rule could
            stop but no shard has answered yet.
        error: reason why the fan-out failed; None otherwise, and after `take_error`.
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
        self, shards: int, policy: PartialPolicy | None, start: float, *, wait_for_all: bool = False
    ) -> None:
        self.values: list[Any] = [None] * shards
        self.error: Exception | None = None
        self.finished = False
        self._left = shards
        self._heard = 0
        self._policy = policy
        self._enough = shards + 1
        self._wait = inf
        self._stop_at = inf  # moment at which the rule stops
        self._ask_at = shards  # largest number of missing shards with which the rule asks to stop
        if policy is not None and not wait_for_all:
            # `round` corrects products such as 0.07 * 100, which are slightly above the whole number.
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
        """Record an answer: WAIT, STOP or DONE."""
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
        """Record a final failure: FAIL if the shard is required, else WAIT or DONE."""
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
        """Next step when the timer fires: STOP if any shard has answered, else wait for a first answer."""
        if self.finished or now < self._stop_at or self._heard == 0 or self._left > self._ask_at:
            return WAIT
        return STOP

    def stop(self) -> None:
        """Record that the stop was granted."""
        self.finished = True

    def take_error(self) -> Exception | None:
        """Return and forget the error: a reference here would form a cycle with its traceback's frames."""
        error, self.error = self.error, None
        return error

    def wait_on(self) -> None:
        """Record that the stop was denied: ask again once half as many shards are missing."""
        self._ask_at = self._left // 2
        self.due = inf
