"""The budget ledger: who may still pay for an extra request. Pure: amounts and times in, yes or no out.

Refilled by successes and never by the clock, so a backend that answers nothing earns nothing and gets no
extra load (the same choice as the success-replenished buckets of the AWS S3 clients). Accounts nest: a copy
is paid by its request, its stage and its service at once, or by none of them. Each lever has an account of
its own: reissues, catch-up, and the utility that partial answers lose.

Amounts are whole numbers, so that no sum drifts however long the process lives.
"""

from __future__ import annotations

REQUEST = 1_000_000_000  # grains that one whole request costs: the unit of the plan's normalised costs
CALL = 1_000_000  # grains that one call costs in its own stage's account
MILLION = 1_000_000
WINDOW_S = 10.0
BUCKETS = 40
_RATE = BUCKETS / WINDOW_S


class Account:
    """A token bucket filled by successes, under a sliding window.

    Over any window of 10 s the spend is at most `fraction` of the work done in it plus one `burst`: the
    bucket holds at most `burst` when the window opens and gains at most `fraction` of what is earned
    within. Besides, a spend must fit `fraction` of the work of the 10 s before it, so under steady load the
    burst adds nothing.

    The clock only expires the window. It may jump: forwards, and what was known is forgotten; backwards, and
    time goes on from there.

    Args:
        fraction: share of the work that may be spent, >= 0.
        burst: the most that the bucket holds, grains. It starts full.
        grace: whether a spend need only fit the work of the 10 s before it plus one burst. For what comes in
            lumps larger than a quiet service's work of 10 s would ever pay: a whole answer's utility, or the
            few copies of a stage whose stalls come together.
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
        self._left: int | None = None  # level that the last plan left; None before the first
        self._grace = grace
        self._pledged = 0
        # Bucket `_head` is the present one and lies at `_slot`. The work of the last BUCKETS buckets
        # counts, and the spend of one more: work covers at most 10 s and spend at least 10 s, so rounding
        # never favours spending.
        self._head = -1
        self._slot = 0
        self._work_in = [0] * (BUCKETS + 1)
        self._spent_in = [0] * (BUCKETS + 1)
        self._work_window = 0
        self._spent_window = 0
        self._busy_since = -1
        self.retune(fraction, burst)

    def retune(self, fraction: float, burst: int) -> None:
        """Take another fraction and burst; what was earned and spent stays: a plan buys no second burst.

        Nor does a plan that follows none: it finds what the last one left. Else whoever switches a plan off
        and on again would spend a burst each time; and if it found nothing, a stage that seldom needs a copy
        would have none while plans take turns.
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
        """What the bucket holds, grains."""
        return self._level // MILLION

    def share_10s(self, now: float) -> float:
        """Spend of the last 10 s as a share of the work in them; 0 where there was none."""
        head = int(now * _RATE)
        if head != self._head:
            self._advance(head)
        return self._spent_window / self._work_window if self._work_window else 0.0

    def earn(self, work: int, now: float, *, refill: bool = True) -> None:
        """Note a success.

        Args:
            work: what it cost, grains.
            now: seconds.
            refill: whether it fills the bucket too, or only counts as work.
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
        """Note a success that came in time: it fills the bucket, and redeems as much that was pledged."""
        self.earn(work, now)
        if not self._pledged:
            return
        redeemed = min(self._pledged, work * self._ppm, self._full - self._level)
        self._pledged -= redeemed
        self._level += redeemed
        self._pledged = min(self._pledged, self._full - self._level)

    def earn_late(self, work: int, now: float) -> None:
        """Note a success that came late: what it earns is a pledge, until a prompt one redeems it.

        So an account is filled in full while at least half of the work is prompt, and not at all where
        everything is late. Pledges and bucket together hold at most one burst.
        """
        self.earn(work, now, refill=False)
        self._pledged = max(0, min(self._pledged + work * self._ppm, self._full - self._level))

    def allows(self, cost: int, now: float, *, denied: int | None = None) -> bool:
        """Whether `cost` grains may be spent at `now`.

        Args:
            cost: grains.
            now: seconds.
            denied: how often the call was denied before. Half of the burst must be left then for those who
                need it more, a quarter after one denial, and so on; of the window a quarter as much. None:
                nothing need be left.
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
        # A full bucket is enough for whatever fits it. And where calls are few, a burst is more than all of
        # the window's budget.
        return max(wanted, min(wanted + kept, self._full)) <= self._level and (
            wanted + min(kept, most >> (denied + 3)) <= left
        )

    def spend(self, cost: int) -> None:
        """Take what `allows` has just allowed."""
        self.spent += cost
        self._level -= cost * MILLION
        self._spent_in[self._slot] += cost
        self._spent_window += cost

    def force(self, cost: int, now: float) -> None:
        """Note a spend that nobody could prevent; the bucket goes into debt for it, by at most one burst."""
        self.earn(0, now)  # so that it counts in the present bucket of the window
        self.spend(cost)
        self._level = max(self._level, -self._full)

    def refund(self, cost: int, head: int) -> None:
        """Take back a part of a spend, as though it had never been spent.

        Args:
            cost: grains, at most what was spent.
            head: what `head` was when it was spent.
        """
        self.spent -= cost
        self._level = min(self._full, self._level + cost * MILLION)
        self._pledged = min(self._pledged, self._full - self._level)
        back = self._head - head
        if 0 <= back <= BUCKETS:
            slot = (self._slot - back) % (BUCKETS + 1)
            taken = min(cost, self._spent_in[slot])  # after a clock's jump the bucket may be another one
            self._spent_in[slot] -= taken
            self._spent_window -= taken

    @property
    def head(self) -> int:
        """Number of the present bucket of the window."""
        return self._head

    def _advance(self, head: int) -> None:
        if head < self._head:  # the clock went back: go on from there
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
        """Judge the window that ends with the present bucket, where the account has been busy for 10 s."""
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


class Purse:
    """What one request may still spend on copies of its calls, grains. Never refilled."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Hold:
    """What is held back for a call with several threads until its answer tells what they cost."""

    __slots__ = ("amount", "head")

    def __init__(self, amount: int, head: int) -> None:
        self.amount = amount
        self.head = head


class Ledger:
    """Charges what is extra to those who pay for it. An account that is not given has no budget yet.

    Args:
        service: the service's account for copies, in grains of a request's cost.
        catch_up: its account for what late requests get, in the same; kept apart, so that late requests
            never eat what was apportioned to the stages.
        utility: its account for what partial answers lose, in grains of a whole answer's utility.
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

    def charge(self, purse: Purse, stage: Account, cost: int, now: float, *, denied: int = 0) -> bool:
        """Charge a copy of one call to request, stage and service: to all, or to none.

        Half of the bursts is kept for calls that asked before and were denied, a quarter for those that asked
        twice, and so on. Where more calls are a little late than the plan foresaw, they would otherwise drain
        the accounts as fast as they fill, and a call that is truly stuck, above all a dear one, would find
        them empty.

        Args:
            purse: the request's.
            stage: the stage's account.
            cost: of the call, grains of a request's cost.
            now: seconds.
            denied: how often the call was denied before.
        """
        if (
            purse.left < cost
            or not stage.allows(CALL, now, denied=denied)
            or not self.service.allows(cost, now, denied=denied)
        ):
            stage.denied += 1
            self.service.denied += 1
            return False
        purse.left -= cost
        stage.spend(CALL)
        self.service.spend(cost)
        return True

    def charge_late(self, purse: Purse, cost: int, now: float) -> bool:
        """Charge a late request's copy to the request and to the catch-up account: to both, or to none."""
        if purse.left < cost or not self.catch_up.allows(cost, now):
            self.catch_up.denied += 1
            return False
        purse.left -= cost
        self.catch_up.spend(cost)
        return True

    def hold(self, purse: Purse, cost: int, now: float) -> Hold | None:
        """Hold back the most that a late call's threads may cost; None where there is not so much."""
        return Hold(cost, self.catch_up.head) if self.charge_late(purse, cost, now) else None

    def settle(self, purse: Purse, hold: Hold, cost: int, now: float) -> None:
        """Charge what the threads did cost, give back what was held beyond it, and owe what was not held."""
        back = hold.amount - cost
        purse.left += back
        if back >= 0:
            self.catch_up.refund(back, hold.head)
        else:
            self.catch_up.force(-back, now)

    def lose(self, loss: int, now: float, *, forced: bool) -> bool:
        """Charge the utility that a partial answer lacks.

        Args:
            loss: grains of a whole answer's utility.
            now: seconds.
            forced: whether what is missing cannot be waited for. It is charged whatever the account holds,
                and answers that could wait do so until it is earned back.

        Returns:
            Whether the answer may do without.
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
    """Pays for sending a lost call again: a bucket filled by successes, without a window.

    Over any stretch of time the retries are at most `share` of the successes in it plus one `burst` (the
    form of Finagle's and gRPC's retry throttling). Kept apart from the reissue budget: faults must not eat
    what was apportioned to the tail.

    Args:
        share: retries that one success earns.
        burst: retries that the full bucket holds. It starts full.
    """

    __slots__ = ("_full", "_level", "_ppm", "denied", "spent")

    def __init__(self, share: float, burst: int) -> None:
        self._ppm = int(share * MILLION)
        self._full = burst * MILLION
        self._level = self._full
        self.spent = 0
        self.denied = 0

    def earn(self) -> None:
        """Note a success."""
        level = self._level + self._ppm
        self._level = min(self._full, level)

    def charge(self) -> bool:
        """Pay for one retry, if there is enough."""
        if self._level < MILLION:
            self.denied += 1
            return False
        self._level -= MILLION
        self.spent += 1
        return True
