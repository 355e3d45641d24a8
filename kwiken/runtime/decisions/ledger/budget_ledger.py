"""Budget ledger: decides whether a copy, a retry or a partial answer is paid for, or denied.

Pure: amounts and times in, decisions out. The rule of an account, and the numbers in it, stand in
`kwiken.model.plan.accounts`. Here the accounts are put together: a copy is charged to its request, its stage
and its service at once, or to none of them. Each lever has an account of its own: reissues, catch-up, and the
utility that partial answers lose. Only reissues have a floor: where everything is late or broken, catch-up
and partial answers must end.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from kwiken.model.plan.accounts import (
    BY_FLOOR,
    HORIZON,
    LOAD,
    NODE,
    OWN_COST,
    Account,
    Floor,
    LedgerBounds,
    grant,
)
from kwiken.model.plan.arm_accounts import ArmAccounts, grant_in_arm
from kwiken.model.plan.observed_work import ObservedWork

MILLION = 1_000_000  # micro-units of a retry


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
        floor: copies a second that are granted whatever `service` holds.

    Attributes:
        observed: work of requests and of copies, as replicas report it.
        part: part of the service's bursts that this ledger has, 0 to 1: less than 1 where gateways share a
            service.
        floor_part: part of the floor that it has, 0 to 1, with what siblings lend and without what they got.
        short: costs that the horizon denied since this was last emptied, in micro-units, by account, as in
            `accounts`.
        short_copies: copies that a bound denied since then.
    """

    __slots__ = (
        "_floor_per_s",
        "_whole",
        "catch_up",
        "floor",
        "floor_part",
        "observed",
        "part",
        "service",
        "short",
        "short_copies",
        "utility",
    )

    def __init__(
        self,
        service: Account | None = None,
        *,
        catch_up: Account | None = None,
        utility: Account | None = None,
        floor: Floor | None = None,
    ) -> None:
        self.service = service or Account()
        self.catch_up = catch_up or Account()
        self.utility = utility or Account()
        self.floor = floor or Floor()
        self.observed = ObservedWork()
        self.part = self.floor_part = 1.0
        self.short = [0, 0, 0]
        self.short_copies = 0
        self._whole = tuple(account.bounds for account in self.accounts)
        self._floor_per_s = 0.0

    @property
    def accounts(self) -> tuple[Account, Account, Account]:
        """Accounts of the service: reissues, catch-up, lost utility."""
        return self.service, self.catch_up, self.utility

    @property
    def floor_per_s(self) -> float:
        """Copies a second of the whole service's floor."""
        return self._floor_per_s

    def retune(
        self,
        service: LedgerBounds,
        catch_up: LedgerBounds,
        utility: LedgerBounds,
        *,
        floor_per_s: float,
        now: float,
    ) -> None:
        """Set other bounds of the whole service, of which this ledger has its part; spends and earnings stay.

        Args:
            floor_per_s: copies a second of the floor, 0 or more.
            now: present time, seconds.
        """
        self._whole = service, catch_up, utility
        self._floor_per_s = floor_per_s
        for account, bounds in zip(self.accounts, self._whole, strict=True):
            account.retune(_part_of(bounds, self.part))
        self.floor.retune(floor_per_s, now, part=self.floor_part)

    def divide(self, part: float, floor_part: float, now: float) -> None:
        """Take another part of the service's bursts and of its floor.

        A larger part of a burst is there only after a horizon: who had it may have spent it just now.

        Args:
            part: part of the bursts, 0 to 1.
            floor_part: part of the floor, 0 to 1.
            now: present time, seconds.
        """
        if part != self.part:
            for account, bounds in zip(self.accounts, self._whole, strict=True):
                before, own = account.bounds.burst, _part_of(bounds, part)
                account.retune(own)
                account.endow(min(0, before - own.burst), now)
        self.part, self.floor_part = part, floor_part
        self.floor.retune(self._floor_per_s, now, part=floor_part)

    def charge(
        self,
        budget: RequestBudget,
        stage: Account,
        cost: int,
        now: float,
        *,
        denied: int = 0,
        spare: float = inf,
        arm: ArmAccounts | None = None,
        name: str = "",
    ) -> bool:
        """Charge a copy of one call to its request, stage and service: to all, or to none.

        A part of the accounts is kept for calls that were denied before: half of the burst for one denial,
        another quarter for two, and so on. Where more calls are slightly late than the plan foresaw, they
        would otherwise drain the accounts as fast as they fill, and a call that is truly stuck, above all an
        expensive one, would find them empty.

        Args:
            budget: budget of the request, which not even the floor exceeds.
            cost: cost of the call, in micro-units of a request's cost.
            now: present time, seconds.
            denied: number of earlier denials of the call, 0 or more.
            spare: spare capacity of the load, as a share of the work; none at 0.
            arm: accounts of the request's arm, which pay as well while a plan is tried; None for none.
            name: name of the stage, if an arm pays.
        """
        # Three accounts in two steps. The request's budget first: it bounds the cost of one request whatever
        # the accounts hold, and is not refilled. Then stage and service at once, by `grant`, so that a denial
        # by either leaves both as they were. The request pays last, since only a granted copy costs.
        if budget.left < cost:
            self.service.denied[OWN_COST] += 1
            stage.denied[OWN_COST] += 1
            return False
        if arm is None:
            verdict = grant(
                self.service, cost, now, floor=self.floor, stage=stage, denied=denied, spare=spare
            )
        else:
            verdict = grant_in_arm(
                arm,
                self.service,
                cost,
                now,
                floor=self.floor,
                stage=stage,
                name=name,
                denied=denied,
                spare=spare,
            )
        if verdict > BY_FLOOR:
            if not denied and verdict != LOAD:
                self.short_copies += 1
                self.short[0] += cost if verdict == HORIZON else 0
            return False
        budget.left -= cost
        return True

    def crowded(self, stage: Account) -> None:
        """Record a copy that was denied because only nodes without headroom had a replica for it."""
        self.service.denied[NODE] += 1
        stage.denied[NODE] += 1

    def charge_late(self, budget: RequestBudget, cost: int, now: float, *, spare: float = inf) -> bool:
        """Charge a late request's copy to the request and to the catch-up account: to both, or to none.

        Args:
            cost: cost of the call, in micro-units of a request's cost.
            now: present time, seconds.
            spare: as in `charge`.
        """
        # Catch-up is not apportioned to stages, so two accounts pay: the request's and the service's.
        if budget.left < cost:
            self.catch_up.denied[OWN_COST] += 1
            return False
        if (verdict := grant(self.catch_up, cost, now, spare=spare)) > BY_FLOOR:
            self.short[1] += cost if verdict == HORIZON else 0
            return False
        budget.left -= cost
        return True

    def hold(self, budget: RequestBudget, cost: int, now: float, *, spare: float = inf) -> Hold | None:
        """Reserve the highest cost that a late call's threads can have; None if it cannot be paid."""
        charged = self.charge_late(budget, cost, now, spare=spare)
        return Hold(cost, self.catch_up.head) if charged else None

    def settle(self, budget: RequestBudget, hold: Hold, cost: int, now: float) -> None:
        """Charge the actual cost of the threads: refund the rest of the reservation, or charge the excess."""
        # Two cases: 1. less was used than reserved, and the rest goes back to the time at which it was taken,
        # so that the limits over time count what was used; 2. more was used, which cannot be undone and is
        # charged even where it overdraws the account: later calls wait until it is earned back.
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
        if verdict := self.utility.refusal(loss, now):
            self.utility.denied[verdict] += 1
            self.short[2] += loss if verdict == HORIZON else 0
            return False
        self.utility.spend(loss, now)
        return True


def _part_of(bounds: LedgerBounds, part: float) -> LedgerBounds:
    return replace(bounds, burst=int(bounds.burst * part))


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
        # Whole micro-units rather than floats: millions of small additions would drift.
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
