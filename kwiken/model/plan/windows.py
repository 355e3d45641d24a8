"""Sliding windows of work and spend, in buckets of time: the 10 s of the peak, and the horizon.

An account keeps the totals and moves both windows on together. The windows keep what the totals were when
each bucket began, and the spend of each bucket. Work is counted for at most the window and spends for at
least the window, so that rounding never favours spending.

Amounts are whole micro-units. Buckets of 0.25 s are numbered by the clock, and both windows are moved by that
number. Pure, and no NumPy: replicas and gateways start without it.
"""

from __future__ import annotations

from typing import Final

PEAK_WINDOW_S: Final = 10.0
PEAK_BUCKETS: Final = 40  # of the 10 s
BUCKETS_PER_S: Final = PEAK_BUCKETS / PEAK_WINDOW_S
HORIZON_S: Final = 3600.0
HORIZON_BUCKETS: Final = 60  # of the horizon
MIN_HORIZON_S: Final = PEAK_WINDOW_S


class Window:
    """Work and spend of the last buckets of one length, in a ring.

    Args:
        buckets: number of buckets in the window, the present one included, 2 or more.
        work: all work up to the window's begin, in micro-units.

    Attributes:
        head: number of the present bucket; negative before the first.
        spent: spend of the window that counts, in micro-units.
    """

    __slots__ = ("_count", "_slot", "_spent_in", "_work_at", "head", "spent")

    def __init__(self, buckets: int, work: int = 0) -> None:
        self.head = -1
        self.spent = 0
        # The present bucket stands at index `_slot`. Totals of work are kept as they were when each bucket
        # began, so that a success costs one addition; spends are kept by bucket, since they can be refunded.
        self._count = buckets
        self._slot = 0
        self._work_at = [work] * buckets
        self._spent_in = [0] * buckets

    @property
    def _first(self) -> int:
        """Index of the oldest bucket whose work counts."""
        return (self._slot + 2) % self._count

    def share(self, work: int) -> float:
        """Spend of the window as a share of its work; 0 without work.

        Args:
            work: all work so far, in micro-units.
        """
        inside = work - self._work_at[self._first]
        return self.spent / inside if inside else 0.0

    def spend(self, cost: int) -> None:
        """Add a spend to the present bucket, in micro-units; a negative one waives spend."""
        self._spent_in[self._slot] += cost
        self.spent += cost

    def refund(self, cost: int, bucket: int) -> None:
        """Take a spend back out of the bucket that it was made in, if the window still holds that bucket.

        Args:
            cost: amount to give back, in micro-units.
        """
        back = self.head - bucket
        if 0 <= back < self._count:
            slot = self._slot - back  # negative where the ring begins anew, and then counts from its end
            held = self._spent_in[slot]
            taken = cost if cost < held else held  # after a clock jump this may be another bucket
            self._spent_in[slot] = held - taken
            self.spent -= taken

    def go_back(self, bucket: int) -> None:
        """Continue from an earlier bucket with what the window holds: the clock jumped backwards.

        Args:
            bucket: number of the bucket, below the present one.
        """
        self.head = bucket


class PeakWindow(Window):
    """Work and spend of the last 10 s, in buckets of 0.25 s.

    Attributes:
        fed_from: work that had filled the account when the oldest bucket of the window began, in micro-units.
        worst: highest spend of a window as a share of the window's work; None before 10 s of work.
    """

    __slots__ = ("_busy_since", "_fed_at", "fed_from", "worst")

    def __init__(self) -> None:
        super().__init__(PEAK_BUCKETS + 1)
        self.fed_from = 0
        self.worst: float | None = None
        self._fed_at = [0] * self._count
        self._busy_since = -1

    def go_back(self, bucket: int) -> None:
        """Continue from an earlier bucket; 10 s of work are counted anew for the worst share.

        Args:
            bucket: number of the bucket, below the present one.
        """
        super().go_back(bucket)
        self._busy_since = -1

    def advance(self, head: int, work: int, fed: int) -> None:
        """Move the window on, and forget what it leaves behind.

        Args:
            head: number of the new bucket, above the present one.
            work: all work so far, in micro-units.
            fed: all work so far that filled the account, in micro-units.
        """
        slot = self._slot
        if work != self._work_at[slot]:
            self._measure(work)
        spent_in, work_at, fed_at = self._spent_in, self._work_at, self._fed_at
        for _ in range(min(head - self.head, PEAK_BUCKETS + 1)):
            slot = slot + 1 if slot < PEAK_BUCKETS else 0
            if spent_in[slot]:
                self.spent -= spent_in[slot]
                spent_in[slot] = 0
            work_at[slot] = work
            fed_at[slot] = fed
        self._slot = slot
        self.head = head
        first = self._first
        self.fed_from = fed_at[first]
        if work == work_at[first]:
            self._busy_since = -1

    def _measure(self, work: int) -> None:
        """Update the worst ratio by the 10 s that end now, once there has been work for 10 s."""
        if self._busy_since < 0:
            self._busy_since = self.head
        if self.head - self._busy_since < PEAK_BUCKETS - 1:
            return
        before = self._spent_in[(self._slot + 1) % (PEAK_BUCKETS + 1)]
        ratio = (self.spent - before) / (work - self._work_at[self._first])
        if self.worst is None or ratio > self.worst:
            self.worst = ratio


class HorizonWindow(Window):
    """Work, earnings and spend of the horizon, in sixtieths rounded up to a multiple of 0.25 s.

    Args:
        horizon_s: length of the horizon, seconds, `MIN_HORIZON_S` or more.

    Attributes:
        steps: number of buckets of 0.25 s in a bucket of the horizon.
        earned_from: what had been earned when the oldest bucket of the window began, in micro-units times a
            million.
    """

    __slots__ = ("_earned_at", "earned_from", "steps")

    def __init__(self, horizon_s: float) -> None:
        self.steps, count = _divided(horizon_s)
        super().__init__(count)
        self.earned_from = 0
        self._earned_at = [0] * count

    def resize(self, horizon_s: float, head: int) -> None:
        """Set another horizon; its present bucket takes all that the window holds.

        Args:
            horizon_s: length of the horizon, seconds, `MIN_HORIZON_S` or more.
            head: number of the present bucket of 0.25 s.
        """
        spent = self.spent
        self.steps, count = _divided(horizon_s)
        super().__init__(count, self._work_at[self._first])
        self.head = head // self.steps
        self.spend(spent)
        self._earned_at = [self.earned_from] * count

    def reprice(self, ppm: int, work: int, earned: int, since: tuple[int, int]) -> int:
        """Lower the earnings of every bucket to a share of its work, for a smaller budget.

        Spends under the larger budget are forgiven as far as earnings that are taken paid for them. A spend
        is paid by earnings of its own bucket or a later one, which do not leave the window before it.

        Args:
            ppm: that share, in millionths.
            work: all work so far, in micro-units.
            earned: all earnings so far, in micro-units times a million.
            since: value of `mark` when the larger budget came in force.

        Returns:
            Earnings taken, in micro-units times a million.
        """
        order = [(self._slot + 1 + number) % self._count for number in range(self._count)]
        works = [self._work_at[slot] for slot in order] + [work]
        earnings = [self._earned_at[slot] for slot in order] + [earned]
        taken = [
            max(0, earnings[at + 1] - earnings[at] - ppm * (works[at + 1] - works[at]))
            for at in range(1, self._count)  # the oldest bucket's spends count, its earnings do not
        ]
        total = 0
        for slot, amount in zip(order[1:], taken, strict=True):
            self._earned_at[slot] -= total
            total += amount
        pool = 0
        for back, amount in enumerate(reversed(taken)):
            bucket, slot = self.head - back, self._slot - back
            if bucket < since[0]:
                break
            pool += amount
            own = self._spent_in[slot] - (since[1] if bucket == since[0] else 0)
            part = min(pool // 1_000_000, max(0, own))
            self._spent_in[slot] -= part
            self.spent -= part
            pool -= part * 1_000_000
        return total

    @property
    def mark(self) -> tuple[int, int]:
        """Present bucket, and its spends so far in micro-units."""
        return self.head, self._spent_in[self._slot]

    def buckets(self, work: int, earned: int) -> list[tuple[int, int, int]]:
        """Work, spend and earnings of each bucket, oldest first, in micro-units.

        Args:
            work: all work so far, in micro-units.
            earned: all earnings so far, in micro-units times a million.
        """
        order = [(self._slot + 1 + number) % self._count for number in range(self._count)]
        works = [self._work_at[slot] for slot in order] + [work]
        earnings = [self._earned_at[slot] for slot in order] + [earned]
        return [
            (works[at + 1] - works[at], self._spent_in[slot], (earnings[at + 1] - earnings[at]) // 1_000_000)
            for at, slot in enumerate(order)
        ]

    def advance(self, bucket: int, work: int, earned: int) -> int:
        """Move the window on, and forget what it leaves behind.

        Args:
            bucket: number of the new bucket of the horizon, above the present one.
            work: all work so far, in micro-units.
            earned: all earnings so far, in micro-units times a million.

        Returns:
            Earnings that the window leaves behind, in micro-units times a million.
        """
        count = self._count
        slot = self._slot
        for _ in range(min(bucket - self.head, count)):
            slot = (slot + 1) % count
            self.spent -= self._spent_in[slot]
            self._spent_in[slot] = 0
            self._earned_at[slot] = earned
            self._work_at[slot] = work
        self._slot = slot
        self.head = bucket
        before, self.earned_from = self.earned_from, self._earned_at[self._first]
        return self.earned_from - before


def _divided(horizon_s: float) -> tuple[int, int]:
    """Length of a horizon's buckets, in buckets of 0.25 s, and their number."""
    buckets = int(horizon_s * BUCKETS_PER_S)
    steps = -(-buckets // HORIZON_BUCKETS)
    return steps, buckets // steps + 1
