"""The race of one call's attempts, as a pure state machine: events in, the next step out.

It decides; it sends nothing, sleeps nowhere and reads no clock. The shell (`_attempts.py`) tells it what
happened and does what it says. Promises, each fuzzed in tests/runtime:

- A failed attempt never ends the race while another one runs; all failing raises all.
- At most 1 primary, `copies` copies (late ones included), 1 paid retry and `RESENDS` free ones (a refused
  attempt did not run).
- Lack of budget or of a replica never touches the attempts that run.
- It finishes exactly once, and nothing is asked for after that.

Reissue policy: SingleR (Kaler, He and Elnikety, SPAA 2017): at age `after` one copy with some probability;
with several copies, each at the same distance after the one before. Besides, a call of a request that comes
of age gets one of its copies at that moment, `late_at`, whatever its own age (Kwiken section 5.5's global
reissue: the earlier of the two moments counts). A call that was denied for lack of budget or of a replica
asks again at twice its age: the longer it has waited the more a copy is worth to it, and the ledger still
holds the sum.
"""

from __future__ import annotations

from math import inf
from typing import Final

# Steps: plain integers, since they are compared on every call.
WAIT: Final = 0  # nothing to do until the next event
COPY: Final = 1  # send a copy if coin, ledger and picker allow
RETRY: Final = 2  # send once more if the retry account and the picker allow
RESEND: Final = 3  # send elsewhere at no charge if the picker allows
FINISH: Final = 4  # over: `winner` is set, or every attempt failed, or time is up
LATE: Final = 5  # send a copy because the request is late, if the catch-up account and the picker allow

# Why an attempt failed.
REFUSED: Final = 0  # it did not run
LOST: Final = 1  # it may have run
FINAL: Final = 2  # another attempt would fail too

RESENDS: Final = 16


class Race:
    """One call's race. Moments are seconds of any one clock.

    Args:
        start: when the primary was sent.
        after: age at which a copy may go; infinite for never.
        copies: the most copies, late ones included.
        hang_at: moment at which a call without any answer may be sent once more; infinite for never.
        limit: moment at which time is up.
        idempotent: whether a call that may have run can be sent again.
        late_at: moment at which the request is late, so that the call gets a copy; infinite for never. It may
            lie before `start`.

    Attributes:
        due: the next moment at which `tick` is wanted.
        running: attempts without an outcome.
        sent: attempts so far: the number of the next one.
        winner: number of the attempt that won; -1 for none.
        finished: whether the race is over.
        expired: whether it ended because time was up.
    """

    __slots__ = (
        "_after",
        "_copies_left",
        "_copy_at",
        "_final",
        "_hang_at",
        "_late_at",
        "_resends_left",
        "_retries_left",
        "_start",
        "denials",
        "due",
        "expired",
        "finished",
        "limit",
        "running",
        "sent",
        "winner",
    )

    def __init__(
        self,
        start: float,
        after: float,
        copies: int,
        *,
        hang_at: float,
        limit: float,
        idempotent: bool,
        late_at: float = inf,
    ) -> None:
        self._start = start
        self._after = after
        self._copies_left = copies
        self._copy_at = copy_at = start + after
        self._hang_at = hang_at
        self._late_at = late_at
        self.limit = limit
        self._retries_left = 1 if idempotent else 0
        self._resends_left = RESENDS
        self._final = False
        self.running = 1
        self.sent = 1
        self.winner = -1
        self.finished = False
        self.denials = 0
        self.expired = False
        due = min(hang_at, copy_at)
        due = min(late_at, due)
        self.due = min(limit, due)

    def tick(self, now: float) -> int:
        """The timer fired: what to do. Answer COPY, LATE and RETRY by `launched` or `denied`."""
        if self.finished:
            return WAIT
        if now >= self.limit:
            self.finished = True
            self.expired = True
            return FINISH
        if now >= self._copy_at:
            return COPY
        if now >= self._late_at:
            return LATE
        if now >= self._hang_at:
            return RETRY
        return WAIT

    def launched(self, step: int) -> int:
        """What `step` asked for was sent; returns its number."""
        number = self.sent
        self.sent += 1
        self.running += 1
        if step in {COPY, LATE}:
            self._copies_left -= 1
            if step == LATE:
                self._late_at = inf
            else:
                self._copy_at += self._after
            if not self._copies_left:
                self._copy_at = self._late_at = inf
        elif step == RETRY:
            self._retries_left = 0
            self._hang_at = inf
        else:
            self._resends_left -= 1
        self._plan()
        return number

    def denied(self, step: int, now: float, *, for_good: bool = True) -> int:
        """What `step` asked for was not granted: WAIT, or FINISH where nothing runs any more.

        Args:
            step: COPY, LATE, RETRY or RESEND.
            now: the moment.
            for_good: whether asking for this copy again is pointless.
        """
        if step in {COPY, LATE}:
            age = now - self._start
            again = inf if for_good or age <= 0 else now + age
            if step == LATE:
                self._late_at = again
            else:
                self._copy_at = again
                self.denials += 1
        elif step == RETRY:
            self._retries_left = 0
            self._hang_at = inf
        self._plan()
        return self._end_if_idle()

    def won(self, number: int) -> int:
        """An attempt succeeded: FINISH if it is the first, WAIT if the race was over."""
        self.running -= 1
        if self.finished:
            return WAIT
        self.finished = True
        self.winner = number
        return FINISH

    def failed(self, how: int) -> int:
        """An attempt failed (REFUSED, LOST or FINAL): WAIT while others run, else RESEND, RETRY or FINISH."""
        self.running -= 1
        if self.finished:
            return WAIT
        if how == FINAL:
            self._final = True
            self._copy_at = self._late_at = self._hang_at = inf
            self._plan()
        if self.running:
            return WAIT
        if not self._final:
            if how == REFUSED and self._resends_left:
                return RESEND
            if how == LOST and self._retries_left:
                return RETRY
        return self._end_if_idle()

    def stop(self) -> None:
        """The caller gave up: nothing is asked for any more."""
        self.finished = True

    def _plan(self) -> None:
        due = min(self._hang_at, self._copy_at, self._late_at)
        self.due = min(self.limit, due)

    def _end_if_idle(self) -> int:
        if self.running or self.finished:
            return WAIT
        self.finished = True
        return FINISH
