"""Accounts of budgets: the one rule that grants or denies a copy, in the runtime, simulators and replays.

An account has two bounds. Over a horizon (an hour by default) the spend stays within a share of the work;
over any 10 s it stays within a peak share, a few times as much, so that a budget saved in quiet hours reaches
the minutes of a fault. A floor, in copies a second, passes both bounds: below it nothing is denied.

Pure: amounts and times in, decisions out. Successes fill the accounts and the clock never does, so a backend
that answers nothing earns nothing and gets no extra load beyond the floor (the same choice as the
success-replenished token buckets of the AWS S3 clients). Amounts are whole micro-units, so that sums stay
exact however long the process lives. No NumPy: replicas and gateways start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from kwiken.model.plan.windows import BUCKETS_PER_S, HORIZON_S, HorizonWindow, PeakWindow

REQUEST: Final = 1_000_000_000  # micro-units that one whole request costs: the unit of the plan's costs
CALL: Final = 1_000_000  # micro-units that one call costs in its own stage's account
MILLION: Final = 1_000_000
FLOOR_BURST: Final = 6.0  # copies at once that the floor passes after a pause
_ROUNDING: Final = 1e-6  # copies; differences of a large clock are rounded

# Verdicts on one copy. The first two grant it; the others name the bound that denied it.
WITHIN: Final = 0  # all bounds hold
BY_FLOOR: Final = 1  # a bound would be passed, but the copies are below the floor
HORIZON: Final = 2  # of the service
PEAK: Final = 3  # of the service
STAGE_HORIZON: Final = 4
STAGE_PEAK: Final = 5
LOAD: Final = 6  # the load is so high that copies hurt
OWN_COST: Final = 7  # the request has spent as much on copies as it costs itself
NODE: Final = 8  # only nodes without headroom have a replica that was not tried
VERDICTS: Final = (
    *("within", "floor", "horizon", "peak", "stage_horizon", "stage_peak", "load", "request"),
    "node",
)


@dataclass(frozen=True, kw_only=True)
class LedgerBounds:
    """Bounds of the spend of an account.

    Attributes:
        fraction: share of the work of the horizon that may be spent in it, 0 or more; 0 for nothing at all.
        burst: amount beyond that share, in micro-units, so that spending can start before much is earned.
        peak: share of the work of 10 s that may be spent in them, 0 or more.
        peak_grace: amount beyond that share, in micro-units: for spends that are larger than the work of 10 s
            of a quiet service could pay.
        horizon_s: length of the horizon, seconds, `MIN_HORIZON_S` or more.
    """

    fraction: float = 0.0
    burst: int = 0
    peak: float = 1.0
    peak_grace: int = 0
    horizon_s: float = HORIZON_S


class AccountHistory(NamedTuple):
    """What an account did over its horizon.

    Attributes:
        horizon_s: length of the horizon, seconds.
        buckets: work, spend and earnings of each bucket of the horizon in micro-units, oldest first.
    """

    horizon_s: float
    buckets: list[tuple[int, int, int]]


class Account:
    """Spend against work, over a horizon and over 10 s.

    Each spend fits, together with those before it,

    - the work of the horizon that ends with it, times `fraction`, plus one `burst`; and
    - the work of the 10 s that end with it, times `peak`, plus `peak_grace`.

    Work counts for both if it fills the account (`earn` with `refill`). The account keeps the totals. Its two
    windows (`PeakWindow`, `HorizonWindow`) keep when the work was done and the amounts were spent.

    The clock is used only to forget, and may jump. After a jump forwards what lies behind is forgotten; after
    a jump backwards the account continues from the new time.

    Attributes:
        work: all work so far, in micro-units.
        spent: all spend so far, in micro-units.
        denied: number of denials so far, by verdict.
        floor_spent: part of `spent` that only the floor granted, in micro-units.
        fraction: share of the work that may be spent over the horizon.
    """

    __slots__ = (
        "_bounds",
        "_credit",
        "_fed",
        "_forfeited",
        "_full",
        "_horizon",
        "_most_pledged",
        "_peak",
        "_peak_ppm",
        "_pledged",
        "_ppm",
        "_priced_ppm",
        "_priced_since",
        "denied",
        "floor_spent",
        "fraction",
        "spent",
        "work",
    )

    def __init__(self, bounds: LedgerBounds = LedgerBounds()) -> None:
        self.work = 0
        self.spent = 0
        self.floor_spent = 0
        self.denied = [0] * len(VERDICTS)
        self._peak = PeakWindow()
        self._horizon = HorizonWindow(bounds.horizon_s)
        self._fed = 0  # work that fills the account
        self._pledged = 0  # late work that prompt work may yet redeem
        # `_credit` plus `_fed` times `_ppm` is the burst plus the earnings of the horizon. Work earns by the
        # fraction in force when it is done, so `_credit` is the burst (`_full`), less the earnings that left
        # the horizon, plus the difference that work under other fractions makes. `_credit` and `_full` are in
        # micro-units times a million.
        self._credit = self._full = self._ppm = 0
        self._priced_ppm, self._priced_since = 0, self._horizon.mark  # last fraction above 0, and its begin
        self._forfeited = 0  # earnings that smaller budgets took, in micro-units times a million
        self._bounds = bounds
        self.retune(bounds)

    def retune(self, bounds: LedgerBounds) -> None:
        """Set other bounds; a change of plans buys no second burst.

        There are three cases:

        1. A larger fraction: past work stays worth what it earned.
        2. No budget, or the last one again: earnings and spends stay, and work without a budget earns
           nothing.
        3. A smaller fraction: past work is worth no more than that fraction of it, else what a larger budget
           left would be spent under the smaller one. What is taken pays for spends under the larger one, so
           that the smaller one does not begin in debt for them.

        After a change of the horizon, what the old one held counts as of the present.

        Args:
            bounds: what may be spent from now on.
        """
        earned, ppm = self._earned, int(bounds.fraction * MILLION)
        if bounds.horizon_s != self._bounds.horizon_s:
            self._horizon.resize(bounds.horizon_s, self._peak.head)
            self._priced_since = self._horizon.mark
        if ppm and ppm != self._priced_ppm:
            if ppm < self._priced_ppm:
                taken = self._horizon.reprice(ppm, self.work, earned, self._priced_since)
                self._forfeited += taken
                earned -= taken
            self._priced_ppm, self._priced_since = ppm, self._horizon.mark
        self._bounds = bounds
        self._ppm = ppm
        self.fraction = self._ppm / MILLION
        self._full = bounds.burst * MILLION
        self._credit = self._full + earned - self._horizon.earned_from - self._fed * self._ppm
        self._peak_ppm = int(bounds.peak * MILLION)
        self._most_pledged = self._full // self._ppm if self._ppm else 0
        self._pledged = min(self._pledged, self._most_pledged)

    @property
    def earned(self) -> int:
        """All earnings so far, in micro-units: what successes would have paid for if nothing expired."""
        return (self._earned + self._forfeited) // MILLION

    @property
    def _earned(self) -> int:
        """All earnings so far, in micro-units times a million."""
        return self._credit - self._full + self._horizon.earned_from + self._fed * self._ppm

    @property
    def bounds(self) -> LedgerBounds:
        """Bounds in force."""
        return self._bounds

    @property
    def head(self) -> int:
        """Number of the present bucket of 0.25 s."""
        return self._peak.head

    @property
    def worst(self) -> float | None:
        """Highest spend over 10 s as a share of the work of these 10 s; None before 10 s of work."""
        return self._peak.worst

    def left(self, now: float) -> int:
        """Amount that the horizon leaves, in micro-units; negative after spends by the floor or forced."""
        self._turn(now)
        return self._left() // MILLION

    def _left(self) -> int:
        return self._credit + self._fed * self._ppm - self._horizon.spent * MILLION

    def horizon_share(self, now: float) -> float:
        """Spend of the horizon as a share of its work; 0 without work."""
        self._turn(now)
        return self._horizon.share(self.work)

    def share_10s(self, now: float) -> float:
        """Spend of the last 10 s as a share of the work of the last 10 s; 0 without work."""
        self._turn(now)
        return self._peak.share(self.work)

    # Work.

    def earn(self, work: int, now: float, *, refill: bool = True) -> None:
        """Record a success.

        Args:
            work: cost of the work, in micro-units.
            now: present time, seconds.
            refill: whether the work may be spent against; if false it counts only in the shares that are
                shown.
        """
        head = int(now * BUCKETS_PER_S)
        if head != self._peak.head:
            self._advance(head)
        self.work += work
        if refill:
            self._fed += work

    def earn_prompt(self, work: int, now: float) -> None:
        """Record a success in time: fills the account and redeems pledges of as much late work.

        Args:
            work: cost of the work, in micro-units.
            now: present time, seconds.
        """
        self.earn(work, now)
        if self._pledged:
            redeemed = min(self._pledged, work)
            self._pledged -= redeemed
            self._fed += redeemed

    def earn_late(self, work: int, now: float) -> None:
        """Record a late success: it is a pledge until a prompt success redeems it.

        The account is thus filled in full while at least half of the work is prompt, and not at all while all
        work is late. Pledges are worth one burst at most.

        Args:
            work: cost of the work, in micro-units.
            now: present time, seconds.
        """
        self.earn(work, now, refill=False)
        self._pledged = min(self._pledged + work, self._most_pledged)

    # Spends.

    def refusal(self, cost: int, now: float, *, denied: int | None = None, spare: float = inf) -> int:
        """The bound that a spend at `now` would pass: `WITHIN` (0) for none, else `HORIZON` or `PEAK`.

        Args:
            cost: amount to spend, in micro-units.
            now: present time, seconds.
            denied: number of earlier denials of the same call, 0 or more. It decides how much must be left
                for calls that need a copy more: half of the burst at 0, a quarter at 1, and so on, and a
                quarter as much of the peak. None: nothing need be left.
            spare: spare capacity of the present load, as a share of the work; it lowers the peak.
        """
        head, peak, bounds = int(now * BUCKETS_PER_S), self._peak, self._bounds
        if head != peak.head:
            self._advance(head)
        fed, wanted = self._fed, cost * MILLION
        peak_ppm = int(spare * MILLION) if spare < bounds.peak else self._peak_ppm
        most = (fed - peak.fed_from) * peak_ppm
        room = most + (bounds.peak_grace - peak.spent) * MILLION - wanted
        if room < 0 or (denied is not None and room < most >> (denied + 3)):
            return PEAK
        if denied is not None:
            # What is left of an untouched burst is enough for any cost that fits it.
            full = self._full
            if wanted < full:
                kept = wanted + (full >> (denied + 1))
                wanted = kept if kept < full else full
        left = self._credit + fed * self._ppm - self._horizon.spent * MILLION
        return WITHIN if wanted <= left and self._ppm else HORIZON

    def spend(self, cost: int, now: float) -> None:
        """Spend an amount, whatever `refusal` says.

        Args:
            cost: amount to spend, in micro-units.
            now: present time, seconds.
        """
        head, peak = int(now * BUCKETS_PER_S), self._peak
        if head != peak.head:
            self._advance(head)
        self.spent += cost
        peak.spend(cost)
        self._horizon.spend(cost)

    def force(self, cost: int, now: float) -> None:
        """Record a spend that could not be prevented. The horizon goes into debt by at most one burst.

        Args:
            cost: amount spent, in micro-units.
            now: present time, seconds.
        """
        self.spend(cost, now)
        debt = -(self._left() // MILLION) - self._bounds.burst
        waived = min(max(0, debt), cost)
        self._horizon.spend(-waived)

    def refund(self, cost: int, head: int) -> None:
        """Undo a part of a spend.

        Args:
            cost: amount to give back, in micro-units; at most the amount spent.
            head: value of `head` at the time of the spend.
        """
        self.spent -= cost
        self._peak.refund(cost, head)
        horizon = self._horizon
        horizon.refund(cost, head // horizon.steps)

    def endow(self, amount: int, now: float) -> None:
        """Let an amount be spent beside what is earned, in micro-units; a negative one is earned first.

        It counts as earned at `now`, and expires with the horizon.
        """
        self._turn(now)
        self._credit += amount * MILLION

    def give(self, amount: int, now: float) -> None:
        """Give an amount away, which another account is endowed with, in micro-units.

        Here it counts like a spend, for at least the horizon, and there like earnings, for at most the
        horizon; so both accounts together never spend more than they earn.
        """
        self._turn(now)
        self._horizon.spend(amount)

    # History.

    def history(self) -> AccountHistory:
        """Buckets of the horizon, for an account that continues after a restart."""
        return AccountHistory(self._bounds.horizon_s, self._horizon.buckets(self.work, self._earned))

    def restore(self, history: AccountHistory, now: float, *, age_s: float) -> None:
        """Continue from the history of another account; this one has neither earned nor spent yet.

        Spends count as one bucket younger and earnings as one bucket older than they can be.

        Args:
            history: history of an account with the same horizon; of any other one it is left as it is.
            now: present time, seconds.
            age_s: age of the history, seconds.
        """
        if history.horizon_s != self._bounds.horizon_s:
            return
        step_s = self._horizon.steps / BUCKETS_PER_S
        end = now + 2 * len(history.buckets) * step_s  # the clock goes back to `now` afterwards
        newest = len(history.buckets) - 1
        moves = [
            move
            for number, (work, spent, earned) in enumerate(history.buckets)
            for move in (
                (end - age_s - (newest - number + 1) * step_s, work, 0, earned),
                (end - max(0.0, age_s + (newest - number - 1) * step_s), 0, spent, 0),
            )
        ]
        for at, work, spent, earned in sorted(moves, key=lambda move: move[0]):
            self.endow(earned, at)
            self.work += work
            self.spent += spent
            self._horizon.spend(spent)
        self._turn(end)
        self._turn(now)
        self._priced_ppm, self._priced_since = MILLION * MILLION, self._horizon.mark  # by any budget
        self.retune(self._bounds)

    # Time.

    def _turn(self, now: float) -> None:
        head = int(now * BUCKETS_PER_S)
        if head != self._peak.head:
            self._advance(head)

    def _advance(self, head: int) -> None:
        """Move both windows to another bucket of 0.25 s."""
        horizon = self._horizon
        if head < self._peak.head:
            self._peak.go_back(head)
            horizon.go_back(head // horizon.steps)
            return
        self._peak.advance(head, self.work, self._fed)
        bucket = head // horizon.steps
        if bucket != horizon.head:
            self._credit -= horizon.advance(bucket, self.work, self._earned)


class Floor:
    """Copies a second below which no copy is denied: a token bucket that the clock fills.

    Every granted copy counts, whichever bound it fits. So the floor adds nothing to a service that spends
    more copies than that, and no more than `per_s` copies a second, plus one burst, pass the bounds.

    The clock may jump: forwards the bucket is full at most, backwards it keeps what it holds.

    Args:
        per_s: copies a second, 0 or more; 0 for no floor.

    Attributes:
        taken: number of copies that were below the floor.
    """

    __slots__ = ("_at", "_burst", "_level", "_per_s", "taken")

    def __init__(self, per_s: float = 0.0) -> None:
        self._at = -inf
        self._level = self._burst = FLOOR_BURST
        self._per_s = per_s
        self.taken = 0

    def retune(self, per_s: float, now: float, *, part: float = 1.0) -> None:
        """Set another number of copies a second; what was taken stays taken, and nothing is added.

        Args:
            per_s: copies a second of the service, 0 or more.
            now: present time, seconds.
            part: part of them, and of their burst, that this bucket has, 0 to 1; at least one copy at once.
        """
        self._fill(now)
        self._per_s = per_s * part
        self._burst = max(1.0, FLOOR_BURST * part) if part else 0.0
        self._level = min(self._level, self._burst)

    def drain(self) -> None:
        """Empty the bucket: the copies that it holds may have been taken before a restart."""
        self._level = 0.0

    def take(self, now: float) -> bool:
        """Count one copy; returns whether it is below the floor.

        Args:
            now: present time, seconds.
        """
        if not self._per_s:
            return False
        self._fill(now)
        if self._level < 1.0 - _ROUNDING:
            return False
        self._level -= 1.0
        self.taken += 1
        return True

    def _fill(self, now: float) -> None:
        if now > self._at and self._per_s and self._level < self._burst:
            self._level = min(self._burst, self._level + (now - self._at) * self._per_s)
        self._at = now


def grant(
    account: Account,
    cost: int,
    now: float,
    *,
    floor: Floor | None = None,
    stage: Account | None = None,
    denied: int | None = None,
    spare: float = inf,
) -> int:
    """Grant a copy and charge it to the stage and the service, or deny it and charge nothing.

    There are four cases:

    1. There is no budget, or the load leaves no room: denied, even below the floor.
    2. All bounds hold: granted, and counted by the floor.
    3. A bound does not hold, but the copies are below the floor: granted, and charged like any other.
    4. A bound does not hold: denied.

    Args:
        cost: cost of the copy, in micro-units of a request's cost.
        now: present time, seconds.
        stage: account of the stage; None to charge the service only.
        denied: number of earlier denials of the same call, as in `Account.refusal`.
        spare: spare capacity of the present load, as a share of the work; none at 0.

    Returns:
        `WITHIN` or `BY_FLOOR` if the copy is granted, else the bound that denied it.
    """
    if not account.fraction:
        return _deny(account, stage, HORIZON)
    if spare <= 0:
        return _deny(account, stage, LOAD)
    verdict = account.refusal(cost, now, denied=denied, spare=spare)
    if not verdict and stage is not None:
        verdict = _OF_STAGE[stage.refusal(CALL, now, denied=denied)]
    below_floor = floor is not None and floor.take(now)
    if verdict and not below_floor:
        return _deny(account, stage, verdict)
    account.spend(cost, now)
    if stage is not None:
        stage.spend(CALL, now)
    if verdict:
        account.floor_spent += cost
        return BY_FLOOR
    return WITHIN


_OF_STAGE: Final = {WITHIN: WITHIN, HORIZON: STAGE_HORIZON, PEAK: STAGE_PEAK}


def _deny(account: Account, stage: Account | None, verdict: int) -> int:
    """Count a denial."""
    account.denied[verdict] += 1
    if stage is not None:
        stage.denied[verdict] += 1
    return verdict
