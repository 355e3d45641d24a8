"""Budget ledger: decides whether an extra copy, retry or partial answer can be paid for.

Pure: amounts and times in, decisions out. Successes refill the accounts and the clock never does, so a
backend that answers nothing earns nothing and gets no extra load (the same choice as the success-replenished
token buckets of the AWS S3 clients). Accounts nest: a copy is charged to its request, its stage and its
service at once, or to none of them. Each lever has an account of its own: reissues, catch-up, and the utility
that partial answers lose.

Amounts are whole micro-units, so that sums stay exact however long the process lives.
"""

from __future__ import annotations

REQUEST = 1_000_000_000  # micro-units that one whole request costs: the unit of the plan's normalised costs
CALL = 1_000_000  # micro-units that one call costs in its own stage's account
MILLION = 1_000_000
WINDOW_S = 10.0
BUCKETS = 40  # of the sliding window
_RATE = BUCKETS / WINDOW_S  # buckets per second


class Account:
    """Token bucket that successes fill, with a limit on the spend in a sliding window.

    Over any window of 10 s the spend is at most `fraction` of the work done in it plus one `burst`: the
    bucket holds at most `burst` when the window opens and gains at most `fraction` of the work within.
    In addition, a spend must fit `fraction` of the work of the 10 s before it, so under steady load the
    burst adds nothing.

    The clock is used only to expire the window, and may jump. After a jump forwards the window is empty;
    after a jump backwards it continues from the new time.

    Args:
        fraction: share of the work that may be spent, 0 or more.
        burst: capacity of the bucket, in micro-units. The bucket starts full.
        grace: if true, a spend must fit the work of the 10 s before it plus one burst. Meant for spends
            larger than the work of 10 s of a quiet service could pay: the utility of a whole answer, or the
                few
            copies of a stage whose stalls come together.
    """

    __slots__ = (
        "_busy_since",
        "_full",
        "_grace",
        "_head",
        "_left",
        "_level",
        "_pledged",
        "_ppm",
        "_slot",
        "_spent_in",
        "_spent_window",
        "_work_in",
        "_work_window",
        "denied",
        "spent",
        "work",
        "worst",
    )

    def __init__(self, fraction: float, burst: int, *, grace: bool = False) -> None:
        self.work = 0
        self.spent = 0
        self.denied = 0
        self.worst: float | None = None
        self._ppm = 0
        self._full = 0
        self._level = 0
        self._left: int | None = None  # level at the end of the last plan; None before the first
        self._grace = grace
        self._pledged = 0
        # Bucket `_head` is the present one, at index `_slot`. The window counts the work of the last BUCKETS
        # buckets and the spend of one bucket more: work covers at most 10 s and spend at least 10 s, so that
        # rounding never favours spending.
        self._head = -1
        self._slot = 0
        self._work_in = [0] * (BUCKETS + 1)
        self._spent_in = [0] * (BUCKETS + 1)
        self._work_window = 0
        self._spent_window = 0
        self._busy_since = -1
        self.retune(fraction, burst)

    def retune(self, fraction: float, burst: int) -> None:
        """Set another fraction and burst; earnings and spends stay, so a plan change buys no second burst.

        The level survives a period without a plan as well. Otherwise switching a plan off and on again would
        grant a burst each time; starting empty instead would leave a stage that seldom needs a copy without
        any while plans alternate.
        """
        if self._full:
            self._left = self._level
        self._ppm = int(fraction * MILLION)
        self._full = burst * MILLION
        self._level = self._full if self._left is None else min(self._left, self._full)
        self._pledged = min(self._pledged, max(0, self._full - self._level))

    @property
    def fraction(self) -> float:
        """Share of the work that may be spent."""
        return self._ppm / MILLION

    @property
    def level(self) -> int:
        """Level of the bucket, in micro-units."""
        return self._level // MILLION

    def share_10s(self, now: float) -> float:
        """Spend of the last 10 s as a share of the work of the last 10 s; 0 without work."""
        head = int(now * _RATE)
        if head != self._head:
            self._advance(head)
        return self._spent_window / self._work_window if self._work_window else 0.0

    def earn(self, work: int, now: float, *, refill: bool = True) -> None:
        """Record a success.

        Args:
            work: cost of the work, in micro-units.
            now: present time, seconds.
            refill: whether the work fills the bucket as well; if false it counts only in the window.
        """
        head = int(now * _RATE)
        if head != self._head:
            self._advance(head)
        self.work += work
        self._work_in[self._slot] += work
        self._work_window += work
        if refill:
            level = self._level + work * self._ppm
            self._level = min(self._full, level)

    def earn_prompt(self, work: int, now: float) -> None:
        """Record a success in time: fills the bucket and redeems the same amount of pledges."""
        self.earn(work, now)
        if not self._pledged:
            return
        redeemed = min(self._pledged, work * self._ppm, self._full - self._level)
        self._pledged -= redeemed
        self._level += redeemed
        self._pledged = min(self._pledged, self._full - self._level)

    def earn_late(self, work: int, now: float) -> None:
        """Record a late success: its earnings are a pledge until a prompt success redeems them.

        The account is thus filled in full while at least half of the work is prompt, and not at all while
        all work is late. Pledges and bucket together hold at most one burst.
        """
        self.earn(work, now, refill=False)
        self._pledged = max(0, min(self._pledged + work * self._ppm, self._full - self._level))

    def allows(self, cost: int, now: float, *, denied: int | None = None) -> bool:
        """Whether `cost` may be spent at `now`.

        Args:
            cost: amount to spend, in micro-units.
            now: present time, seconds.
            denied: number of earlier denials of the same call, 0 or more. It decides how much must be left
                for calls that need a copy more: half of the burst at 0, a quarter at 1, and so on, and a
                quarter as much of the window. None: nothing need be left.
        """
        head = int(now * _RATE)
        if head != self._head:
            self._advance(head)
        wanted = cost * MILLION
        most = self._work_window * self._ppm
        if self._grace:
            most += self._full
        left = most - self._spent_window * MILLION
        if denied is None:
            return wanted <= min(self._level, left)
        kept = self._full >> (denied + 1)
        # A full bucket is enough for any cost that fits it. Where calls are few, the burst is larger than the
        # window's whole budget.
        return max(wanted, min(wanted + kept, self._full)) <= self._level and (
            wanted + min(kept, most >> (denied + 3)) <= left
        )

    def spend(self, cost: int) -> None:
        """Spend an amount that `allows` has just allowed."""
        self.spent += cost
        self._level -= cost * MILLION
        self._spent_in[self._slot] += cost
        self._spent_window += cost

    def force(self, cost: int, now: float) -> None:
        """Record a spend that could not be prevented; the bucket goes into debt, by at most one burst."""
        self.earn(0, now)  # advances the window to the present bucket
        self.spend(cost)
        self._level = max(self._level, -self._full)

    def refund(self, cost: int, head: int) -> None:
        """Undo a part of a spend.

        Args:
            cost: amount to give back, in micro-units; at most the amount spent.
            head: value of `head` at the time of the spend.
        """
        self.spent -= cost
        self._level = min(self._full, self._level + cost * MILLION)
        self._pledged = min(self._pledged, self._full - self._level)
        back = self._head - head
        if 0 <= back <= BUCKETS:
            slot = (self._slot - back) % (BUCKETS + 1)
            taken = min(cost, self._spent_in[slot])  # after a clock jump this may be another bucket
            self._spent_in[slot] -= taken
            self._spent_window -= taken

    @property
    def head(self) -> int:
        """Number of the present bucket of the window."""
        return self._head

    def _advance(self, head: int) -> None:
        if head < self._head:  # the clock went back: continue from the new time
            self._head = head
            self._busy_since = -1
            return
        self._measure()
        steps = min(head - self._head, BUCKETS + 1)
        for _ in range(steps):
            self._slot = (self._slot + 1) % (BUCKETS + 1)
            self._spent_window -= self._spent_in[self._slot]
            self._spent_in[self._slot] = 0
            oldest = (self._slot + 1) % (BUCKETS + 1)
            self._work_window -= self._work_in[oldest]
            self._work_in[oldest] = 0
        self._head = head
        if self._work_window == 0:
            self._busy_since = -1

    def _measure(self) -> None:
        """Update the worst ratio by the window that ends now, once the account has been busy for 10 s."""
        if self._work_in[self._slot] == 0:
            return
        if self._busy_since < 0:
            self._busy_since = self._head
        if self._head - self._busy_since < BUCKETS - 1:
            return
        before = self._spent_in[(self._slot + 1) % (BUCKETS + 1)]
        ratio = (self._spent_window - before) / self._work_window
        if self.worst is None or ratio > self.worst:
            self.worst = ratio


class RequestBudget:
    """Amount that one request may still spend on copies of its calls, in micro-units. Never refilled."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Hold:
    """Amount reserved for a call with several threads until its answer reports the actual cost."""

    __slots__ = ("amount", "head")

    def __init__(self, amount: int, head: int) -> None:
        self.amount = amount
        self.head = head


class Ledger:
    """Charges extra work to the accounts that pay for it. An account that is not given has no budget.

    Args:
        service: account of the service for copies, in micro-units of a request's cost.
        catch_up: account of the service for late requests, in the same unit. Separate, so that late requests
            never use up the budget that was apportioned to the stages.
        utility: account of the service for the loss of partial answers, in micro-units of a whole answer's
            utility.
    """

    __slots__ = ("catch_up", "service", "utility")

    def __init__(
        self,
        service: Account | None = None,
        *,
        catch_up: Account | None = None,
        utility: Account | None = None,
    ) -> None:
        self.service = service or Account(0.0, 0)
        self.catch_up = catch_up or Account(0.0, 0)
        self.utility = utility or Account(0.0, 0, grace=True)

    def charge(
        self, budget: RequestBudget, stage: Account, cost: int, now: float, *, denied: int = 0
    ) -> bool:
        """Charge a copy of one call to its request, stage and service: to all, or to none.

        A part of the bursts is kept for calls that were denied before: half for one denial, another quarter
        for two, and so on. Where more calls are slightly late than the plan foresaw, they would otherwise
        drain the accounts as fast as they fill, and a call that is truly stuck, above all an expensive one,
        would find them empty.

        Args:
            budget: budget of the request.
            stage: account of the stage.
            cost: cost of the call, in micro-units of a request's cost.
            now: present time, seconds.
            denied: number of earlier denials of the call, 0 or more.
        """
        if (
            budget.left < cost
            or not stage.allows(CALL, now, denied=denied)
            or not self.service.allows(cost, now, denied=denied)
        ):
            stage.denied += 1
            self.service.denied += 1
            return False
        budget.left -= cost
        stage.spend(CALL)
        self.service.spend(cost)
        return True

    def charge_late(self, budget: RequestBudget, cost: int, now: float) -> bool:
        """Charge a late request's copy to the request and to the catch-up account: to both, or to none."""
        if budget.left < cost or not self.catch_up.allows(cost, now):
            self.catch_up.denied += 1
            return False
        budget.left -= cost
        self.catch_up.spend(cost)
        return True

    def hold(self, budget: RequestBudget, cost: int, now: float) -> Hold | None:
        """Reserve the highest cost that a late call's threads can have; None if the budget is too small."""
        return Hold(cost, self.catch_up.head) if self.charge_late(budget, cost, now) else None

    def settle(self, budget: RequestBudget, hold: Hold, cost: int, now: float) -> None:
        """Charge the actual cost of the threads: refund the rest of the reservation, or charge the excess."""
        back = hold.amount - cost
        budget.left += back
        if back >= 0:
            self.catch_up.refund(back, hold.head)
        else:
            self.catch_up.force(-back, now)

    def lose(self, loss: int, now: float, *, forced: bool) -> bool:
        """Charge the utility that a partial answer lacks.

        Args:
            loss: missing utility, in micro-units of a whole answer's utility.
            now: present time, seconds.
            forced: whether waiting could not help (shards failed). The loss is charged whatever the account
                holds, and answers that can wait do so until it is earned back.

        Returns:
            Whether the partial answer may be given.
        """
        if forced:
            self.utility.force(loss, now)
            return True
        if not self.utility.allows(loss, now):
            self.utility.denied += 1
            return False
        self.utility.spend(loss)
        return True


class RetryAccount:
    """Token bucket for retries of lost calls: filled by successes, without a window.

    Over any stretch of time the retries are at most `share` of the successes in it plus one `burst` (the
    form of Finagle's and gRPC's retry throttling). Separate from the reissue budget, so that faults do not
    use up the budget meant for the tail.

    Args:
        share: retries that one success earns, 0 or more.
        burst: capacity of the bucket, in retries. The bucket starts full.
    """

    __slots__ = ("_full", "_level", "_ppm", "denied", "spent")

    def __init__(self, share: float, burst: int) -> None:
        self._ppm = int(share * MILLION)
        self._full = burst * MILLION
        self._level = self._full
        self.spent = 0
        self.denied = 0

    def earn(self) -> None:
        """Record a success."""
        level = self._level + self._ppm
        self._level = min(self._full, level)

    def charge(self) -> bool:
        """Pay for one retry, if the bucket holds one."""
        if self._level < MILLION:
            self.denied += 1
            return False
        self._level -= MILLION
        self.spent += 1
        return True
