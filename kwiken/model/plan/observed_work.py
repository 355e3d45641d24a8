"""Observed work: what calls of a stage cost by the measurements of replicas, whatever the plan says.

Pure. A plan states each stage's share of the work, and a document may be old or forged. So a copy is charged
the greater of that share and the observed one, and the ledger is charged once more where a copy turns out to
have cost more. Requests that are copied may be heavier than others, so their calls have a mean of their own.
"""

from __future__ import annotations

from typing import Final

from kwiken.model.plan.accounts import REQUEST

MIN_COPIED: Final = 8  # copied calls before which their own mean does not count
BUSY_GAIN: Final = 0.05  # weight of one call in the moving average of busy times
BUSY_CLIP: Final = 3.0  # one sample counts at most as this multiple of it: replicas may report anything
MAX_COUNT: Final = 2048  # requests or calls after which older ones count half


class MeanWork:
    """Mean work of calls, of which old ones count less and less.

    Attributes:
        ms: work of the calls that count, milliseconds.
        count: number of them.
    """

    __slots__ = ("count", "ms")

    def __init__(self) -> None:
        self.ms = 0.0
        self.count = 0.0

    @property
    def mean(self) -> float:
        """Mean work of a call, milliseconds; 0 without any."""
        return self.ms / self.count if self.count else 0.0

    def learn(self, ms: float) -> None:
        """Count a call."""
        self.ms += ms
        self.count += 1
        if self.count > MAX_COUNT:
            self.ms /= 2
            self.count /= 2


class UsualWork:
    """Work of a stage's calls, by which copies and extra threads are charged.

    Attributes:
        answered: work of calls that were answered, as replicas report it.
        copied: work that one copy of a call adds.
        is_unknown: whether calls are answered without a report of their work, as foreign services do.
        busy_ms: busy time of a call with one thread, milliseconds; 0 where unknown.
        late_extra: extra work of a call with more threads, as a share of a call's work; 0 where unknown.
    """

    __slots__ = ("answered", "busy_ms", "copied", "is_unknown", "late_extra")

    def __init__(self) -> None:
        self.answered = MeanWork()
        self.copied = MeanWork()
        self.is_unknown = False
        self.busy_ms = 0.0
        self.late_extra = 0.0

    def learn_busy(self, busy_ms: float) -> None:
        """Record the busy time of a call with one thread, milliseconds."""
        known = self.busy_ms
        self.busy_ms = known + BUSY_GAIN * (min(busy_ms, BUSY_CLIP * known) - known) if known else busy_ms


class ObservedWork:
    """Work of whole requests, and the extra work of copies.

    Attributes:
        answered_ms: work of the attempts that won so far, milliseconds.
        extra_ms: work of all others of calls with copies so far, milliseconds.
    """

    __slots__ = ("_requests", "answered_ms", "extra_ms")

    def __init__(self) -> None:
        self._requests = MeanWork()
        self.answered_ms = 0.0
        self.extra_ms = 0.0

    @property
    def extra_share(self) -> float:
        """Observed work of copies as a share of the work without them."""
        return self.extra_ms / self.answered_ms if self.answered_ms else 0.0

    def answered(self, stage: MeanWork, ms: float) -> None:
        """Count the work of an attempt that won, milliseconds."""
        stage.learn(ms)
        self.answered_ms += ms
        self._requests.ms += ms

    def add_rest(self, ms: float) -> None:
        """Count the work after the first item of an attempt that won, milliseconds."""
        self.answered_ms += ms
        self._requests.ms += ms

    def request_answered(self) -> None:
        """Count a request whose calls were counted."""
        self._requests.learn(0.0)

    def copied(self, stage: MeanWork, extra_ms: float, copies: int) -> None:
        """Count the work that the copies of one call caused, milliseconds."""
        self.extra_ms += extra_ms
        for _ in range(copies):
            stage.learn(extra_ms / copies)

    def cost(self, ms: float, share: float) -> int:
        """Cost of a call by its work, in micro-units of a request's cost; 0 where too little is known.

        Args:
            ms: work of the call, milliseconds.
            share: part of a request's cost in the stages whose work is observed, 0 to 1.
        """
        whole_ms = self._requests.mean
        return round(share * REQUEST * ms / whole_ms) if whole_ms else 0

    def copy_cost(self, work: UsualWork, planned: int, even: int, share: float) -> int:
        """Cost that a copy of a stage's call is charged, in micro-units of a request's cost.

        There are three cases: 1. the stage has answered, and nobody says how much work that was: the plan's
        share; 2. it has not answered yet: if the plan says less, as much as if all calls cost the
        same; 3. its work is known: the greater of the plan's share and the mean.

        Args:
            planned: cost of the call by the plan, in micro-units of a request's cost.
            even: share of the call if all calls of a request cost the same.
            share: as in `cost`.
        """
        ms = work.answered.mean
        if work.copied.count >= MIN_COPIED:
            ms = max(ms, work.copied.mean)
        observed = self.cost(ms, share)
        return max(planned, observed or (0 if work.is_unknown else even))
