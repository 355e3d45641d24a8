"""Race of one call: when a copy is due, and when the call is won or lost.

Pure: events in, the next step out. It sends nothing, never sleeps and reads no clock. The engine
(`kwiken.runtime.engine.hedged_call`) reports events and carries out the steps. Invariants, each fuzzed in
tests/runtime:

- A failed attempt never ends the race while another attempt runs; the call fails when all attempts failed.
- At most 1 primary, `copies` copies (late ones included), 1 paid retry and `RESENDS` free resends (a refused
  attempt did not run).
- Lack of budget or of a replica never affects the attempts that run.
- The race finishes exactly once, and asks for nothing afterwards.

Simulated races need no failures, retries or time limits and have code of their own;
tests/tail/simulation/test_races.py holds their copies and latencies equal to this one's.

Reissue policy: SingleR (Kaler, He and Elnikety, SPAA 2017): at age `after` one copy with some probability;
with several copies, each at the same distance after the one before, or as soon as one has failed, and one
draw for all. In addition, a call
of a request that becomes late gets one of its copies at that moment, `late_at`, whatever its own age (the
global reissue of Kwiken section 5.5: the earlier of the two moments counts). A call that was denied for lack
of budget or of a replica asks again at twice its age: the longer it has waited, the more a copy gains, and
the ledger still bounds the sum. A copy may also be put off for a while, because calls of all stages are slow
(`CommonDelay`); that is no denial.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

# Steps: plain integers, since they are compared on every call.
WAIT: Final = 0  # nothing to do until the next event
COPY: Final = 1  # send a copy, if the random draw, the ledger and the picker allow it
RETRY: Final = 2  # send the call once more, if the retry account and the picker allow it
RESEND: Final = 3  # send the call to another replica at no charge, if the picker allows it
FINISH: Final = 4  # the race is over: `winner` is set, or every attempt failed, or time is up
LATE: Final = 5  # send a copy because the request is late, if the catch-up account and the picker allow it

# Why an attempt failed.
REFUSED: Final = 0  # the attempt did not run
LOST: Final = 1  # the attempt may have run
FINAL: Final = 2  # another attempt would fail too

RESENDS: Final = 16  # free resends of one call
MAX_SHARE_PUT_OFF: Final = 0.5  # of the time that a call has, after which a copy is put off no longer


class Race(msgspec.Struct, eq=False):
    """Hedging state of one call. Moments are seconds of any one clock.

    Attributes:
        start: moment at which the primary was sent.
        after: age at which a copy may be sent; infinite for never.
        copies: number of copies that may still be sent, late ones included; 0 or more.
        hang_at: moment at which a call without any answer may be sent once more; infinite for never.
        limit: moment at which time is up.
        repeatable: whether a call that may have run can be sent once more.
        late_at: moment at which the request is late, so that the call gets a copy; infinite for never. It may
            be before `start`.
        copy_at: moment at which the next copy may be sent; infinite for never.
        copy_due: the same without the time for which that copy was put off.
        due: next moment at which `tick` must be called.
        resends: number of free resends that are left.
        denials: number of times a copy was denied.
        running: number of attempts without an outcome.
        sent: number of attempts so far, which is the number of the next attempt.
        winner: number of the attempt that won; -1 for none.
        expired: whether the race ended because time was up.
    """

    start: float
    after: float
    copies: int
    hang_at: float
    limit: float
    repeatable: bool
    late_at: float = inf
    copy_at: float = inf
    copy_due: float = inf
    due: float = inf
    resends: int = RESENDS
    denials: int = 0
    running: int = 1
    sent: int = 1
    winner: int = -1
    finished: bool = False
    expired: bool = False

    def __post_init__(self) -> None:
        """Derive the moments of the first copy and of the first tick."""
        self.copy_at = self.copy_due = self.start + self.after
        self._plan()

    def tick(self, now: float) -> int:
        """Next step when the timer fires. Reply to COPY, LATE and RETRY with `launched` or `denied`."""
        if self.finished:
            return WAIT
        if now >= self.limit:
            self.finished = True
            self.expired = True
            return FINISH
        if now >= self.copy_at:
            return COPY
        if now >= self.late_at:
            return LATE
        if now >= self.hang_at:
            return RETRY
        return WAIT

    def launched(self, step: int) -> int:
        """Record that the attempt asked for by `step` was sent; returns its number."""
        number = self.sent
        self.sent += 1
        self.running += 1
        if step in {COPY, LATE}:
            self.copies -= 1
            if step == LATE:
                self.late_at = inf
            else:
                self.copy_at += self.after
                self.copy_due = self.copy_at
            if not self.copies:
                self.copy_at = self.copy_due = self.late_at = inf
        elif step == RETRY:
            self.repeatable = False
            self.hang_at = inf
        else:
            self.resends -= 1
        self._plan()
        return number

    def denied(self, step: int, now: float, *, for_good: bool = True) -> int:
        """Record that the attempt asked for by `step` was not sent: WAIT, or FINISH if none runs any more.

        Args:
            step: COPY, LATE, RETRY or RESEND.
            now: present moment, seconds.
            for_good: whether the race must not ask for this copy again.
        """
        if step in {COPY, LATE}:
            age = now - self.start
            again = inf if for_good or age <= 0 else now + age
            if step == LATE:
                self.late_at = again
            else:
                self.copy_at = self.copy_due = again
                self.denials += 1
        elif step == RETRY:
            self.repeatable = False
            self.hang_at = inf
        self._plan()
        return self._end_if_idle()

    def put_off(self, until: float, now: float) -> bool:
        """Put a copy off; False if it must not wait any longer, so that it is sent or denied now.

        Half of the time until the call hangs or time is up is kept for the copy.

        Args:
            until: moment at which to ask for the copy again.
            now: present moment, seconds.
        """
        last = self.start + MAX_SHARE_PUT_OFF * (min(self.hang_at, self.limit) - self.start)
        until = min(until, last)
        if until <= now:
            return False
        self.copy_at = until
        self._plan()
        return True

    def won(self, number: int) -> int:
        """Record a success: FINISH for the first, WAIT if the race was over."""
        self.running -= 1
        if self.finished:
            return WAIT
        self.finished = True
        self.winner = number
        return FINISH

    def failed(self, how: int) -> int:
        """Record a failure (REFUSED, LOST or FINAL): WAIT while others run, else RESEND, RETRY or FINISH."""
        self.running -= 1
        if self.finished:
            return WAIT
        if how == FINAL:
            self.resends, self.repeatable = 0, False
            self.copy_at = self.copy_due = self.late_at = self.hang_at = inf
            self._plan()
        if self.running:
            return WAIT
        if how == REFUSED and self.resends:
            return RESEND
        if how == LOST and self.repeatable:
            return RETRY
        return self._end_if_idle()

    def copy_failed(self, now: float) -> bool:
        """Make the next copy due at once, because a copy has failed; False if none is to come.

        The delay between copies gives the last one time to answer, which is of no use once it has failed. The
        first copy keeps its age: no copy is sent before `after`.

        Args:
            now: present moment, seconds.
        """
        if self.finished or not now < self.copy_at < inf or now < self.start + self.after:
            return False
        self.copy_at = self.copy_due = now
        self._plan()
        return True

    def stop(self) -> None:
        """End the race because the caller gave up."""
        self.finished = True

    def _plan(self) -> None:
        """Set the next tick to the first moment at which something is due."""
        due = self.limit
        if self.hang_at < due:
            due = self.hang_at
        if self.copy_at < due:
            due = self.copy_at
        if self.late_at < due:
            due = self.late_at
        self.due = due

    def _end_if_idle(self) -> int:
        if self.running or self.finished:
            return WAIT
        self.finished = True
        return FINISH
