"""Shared budget: state machine by which the gateways of one service keep one budget together.

Shares of work add up by themselves: each gateway earns by its own requests. Bursts and the floor do not, so
each gateway has one part of them, divided by the number of gateways. What one does not use it lends:

- earnings for good: the lender's account is charged before they are sent, so a lost message loses them;
- floor for a lease, which ends for the borrower before it ends for the lender.

A gateway that is cut off keeps its own part, and its siblings cannot tell that from its end. So a gateway
counts for an hour after it was last heard of, unless it says that it leaves; and a new one has no part until
each gateway that may have one has answered it, and therefore counts it. Until then it lives on its
earnings and on loans. Pure: clock and messages are passed in.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Final

import msgspec

from kwiken.model.plan.windows import HORIZON_S
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger

LEASE_S: Final = 10.0  # of a loan of floor, as the borrower counts it, from before it asked
DRIFT_S: Final = 0.5  # by which it is longer for the lender
USE_ROUNDS: Final = 5  # in which the own use of the floor is measured
MAX_MEMBERS: Final = 1000  # gateways that are remembered

Credits = tuple[int, int, int]  # micro-units by account: reissues, catch-up, lost utility
NOTHING: Final[Credits] = (0, 0, 0)


class Loan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for, lent, or spare.

    Attributes:
        per_s: part of the floor, in copies a second.
        credits: earnings by account, in micro-units of a request.
    """

    per_s: float = 0.0
    credits: Credits = NOTHING

    def __post_init__(self) -> None:
        """Check that amounts are finite, and 0 or more."""
        if not (isfinite(self.per_s) and self.per_s >= 0 and min(self.credits) >= 0):
            raise ValueError("amounts must be finite, and 0 or more")


class BudgetAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Question of one gateway to all siblings.

    Attributes:
        sender: name of the gateway, unique among all, the same after a restart.
        at_s: moment by its own clock, which answers repeat.
        wants: what it asks of each sibling, by name.
        leaves: whether it stops, and has no part any more.
    """

    sender: str
    at_s: float
    wants: dict[str, Loan] = {}
    leaves: bool = False


class BudgetAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to a question.

    Attributes:
        at_s: `at_s` of the question.
        members: gateways that may have a part, as far as the sender knows, by name: seconds since each was
            last heard of.
        left: gateways that have left, by name: seconds since they said so.
        counts: whether the sender's part leaves room for that of the gateway that asked; not while it has
            lent more floor than a part that has just become smaller.
        loan: what is lent: floor until the lease ends, earnings for good.
        spare: what the sender could lend besides.
    """

    sender: str
    at_s: float
    members: dict[str, float]
    left: dict[str, float]
    counts: bool = True
    loan: Loan = Loan()
    spare: Loan = Loan()


class SharedBudget:
    """One gateway's side.

    Args:
        ledger: ledger of the gateway, of which the parts are set.
        name: name of the gateway, unique among all.
        now: present time, seconds.
        least: number of gateways that there are at least; above 1 where all are started together and each
            has its part from the start; 0 where others may have parts that this one has yet to hear of.
        first: whether no earlier process of this name can have lent floor, for a lease that still runs.
    """

    def __init__(self, ledger: Ledger, name: str, now: float, *, least: int = 0, first: bool = False) -> None:
        self._ledger = ledger
        self._name = name
        self._least = least
        self._heard: dict[str, float] = {}  # moment at which each sibling was last heard of
        self._left: dict[str, float] = {}  # moment at which each of those that left said so
        self._counts_me: set[str] = set()  # siblings that have answered
        self._owns = least > 0  # whether this gateway has a part
        self._leaves = False
        self._floor_from = now if first else now + LEASE_S + DRIFT_S
        self._answered: dict[str, float] = {}  # `at_s` of the last answer of each sibling
        self._spare: dict[str, Loan] = {}  # by their last answers
        self._lent: dict[str, list[tuple[float, float]]] = {}  # end and copies a second of each lease
        self._borrowed: dict[str, tuple[float, float]] = {}
        self._round_at = now
        self._taken, self._work = ledger.floor.taken, [0, 0, 0]
        self._uses: list[float] = []  # copies a second of the last rounds
        self._short = Loan()  # what was denied in the last round
        self._kept = 0.0  # share of the borrowed floor that is in use
        self._idle = [True, True, True]
        self._settle(now)

    @property
    def members(self) -> int:
        """Number of gateways that may have a part, this one too."""
        return max(self._least, len(self._heard) + 1)

    @property
    def part(self) -> float:
        """Own part of bursts and floor, 0 to 1."""
        return 1 / self.members if self._owns and not self._leaves else 0.0

    # A round: a question to all, their answers, and its end.

    def ask(self, now: float) -> BudgetAsk:
        """Begin a round: the question to all siblings."""
        self._measure(now)
        self._settle(now)
        spare = {name: loan for name, loan in self._spare.items() if name in self._heard}
        per_s = sum(loan.per_s for loan in spare.values())
        sums = [sum(loan.credits[each] for loan in spare.values()) for each in range(len(NOTHING))]
        wants = {}
        for name, loan in spare.items():
            held = self._borrowed.get(name, (now, 0.0))[1]
            reissues, catch_up, utility = (
                int(_portion(*each)) for each in zip(self._short.credits, loan.credits, sums, strict=True)
            )
            wants[name] = Loan(
                held * self._kept + _portion(self._short.per_s, loan.per_s, per_s),
                (reissues, catch_up, utility),
            )
        return BudgetAsk(self._name, now, wants, self._leaves)

    def answer(self, ask: BudgetAsk, now: float) -> BudgetAnswer:
        """Answer a sibling's question; what is lent is charged at once."""
        if ask.sender != self._name:
            if ask.leaves:
                self._bury(ask.sender, now)
            else:
                self._hear(ask.sender, now)
        self._settle(now)
        loan = self._lend(ask, now) if ask.sender in self._heard else Loan()
        spare = Loan(self._spare_floor(now), self._spare_credits(now))
        self._settle(now)
        counts = self._lent_floor() <= self._ledger.floor_per_s * self.part
        members = {name: now - at for name, at in self._heard.items()}
        left = {name: now - at for name, at in self._left.items()}
        return BudgetAnswer(self._name, ask.at_s, members, left, counts, loan, spare)

    def accept(self, answer: BudgetAnswer, now: float) -> None:
        """Take an answer to a question; one that is late, or was overtaken by a later one, is dropped."""
        if answer.sender == self._name:
            return
        for name, age_s in answer.members.items():
            if name != self._name:
                self._hear(name, answer.at_s - age_s)
        for name, age_s in answer.left.items():
            self._bury(name, answer.at_s - age_s)  # no later than it was: what it said afterwards counts
        self._hear(answer.sender, now)
        if answer.counts:
            self._counts_me.add(answer.sender)
        ends = answer.at_s + LEASE_S
        if not answer.at_s <= now < ends or answer.at_s <= self._answered.get(answer.sender, -1.0):
            return
        self._answered[answer.sender] = answer.at_s
        self._spare[answer.sender] = answer.spare
        self._borrowed[answer.sender] = (ends, answer.loan.per_s)
        for account, amount in zip(self._ledger.accounts, answer.loan.credits, strict=True):
            if amount:
                account.endow(amount, now)
        self._settle(now)

    def complete(self, now: float) -> None:
        """End a round in which every known address answered: who counts this gateway leaves it its part."""
        for name in [name for name, at in self._heard.items() if now - at >= HORIZON_S]:
            self._forget(name)
        self._left = {name: at for name, at in self._left.items() if now - at < HORIZON_S}
        self._owns = self._owns or self._counts_me.issuperset(self._heard)
        self._settle(now)

    def leave(self, now: float) -> BudgetAsk:
        """Give up the own part; returns the question by which siblings learn of it."""
        self._leaves = True
        self._borrowed.clear()
        self._settle(now)
        return BudgetAsk(self._name, now, leaves=True)

    # Members.

    def _hear(self, name: str, at: float) -> None:
        """Count a sibling, unless it has left since then."""
        if at > self._left.get(name, -inf) and (name in self._heard or len(self._heard) < MAX_MEMBERS):
            self._heard[name] = max(at, self._heard.get(name, at))

    def _bury(self, name: str, at: float) -> None:
        """Note that a sibling left, unless it was heard of since."""
        if self._heard.get(name, at) <= at and (name in self._left or len(self._left) < MAX_MEMBERS):
            self._forget(name)
            self._left[name] = max(at, self._left.get(name, at))

    def _forget(self, name: str) -> None:
        for known in (self._heard, self._spare, self._borrowed, self._lent, self._answered):
            known.pop(name, None)
        self._counts_me.discard(name)

    # Loans.

    def _measure(self, now: float) -> None:
        """Note what the round used, and what it lacked."""
        ledger, took = self._ledger, max(now - self._round_at, 1e-3)
        self._uses = [*self._uses[1 - USE_ROUNDS :], (ledger.floor.taken - self._taken) / took]
        own, held = self._own_floor(now), sum(per_s for _, per_s in self._borrowed.values())
        lacked = ledger.short_copies / took
        reissues, catch_up, utility = ledger.short
        self._short = Loan(
            max(0.0, min(lacked, ledger.floor_per_s - own - held)), (reissues, catch_up, utility)
        )
        # A loan that is in use is asked for again, else the floor would swing between all and nothing.
        used = min(1.0, max(0.0, max(self._uses) - own) / held) if held else 0.0
        self._kept = 1.0 if lacked else used
        works = [account.work for account in ledger.accounts]
        self._idle = [work == before for work, before in zip(works, self._work, strict=True)]
        self._work = works
        self._taken, self._round_at = ledger.floor.taken, now
        ledger.short, ledger.short_copies = [0, 0, 0], 0

    def _lend(self, ask: BudgetAsk, now: float) -> Loan:
        want = ask.wants.get(self._name, Loan())
        before = max((per_s for _, per_s in self._lent.get(ask.sender, ())), default=0.0)
        # Where copies are denied here too, what is lent comes back by halves.
        most = before / 2 if self._lacks else self._spare_floor(now) + before
        per_s = min(want.per_s, most)
        if per_s > 0:
            self._lent.setdefault(ask.sender, []).append((now + LEASE_S + DRIFT_S, per_s))
        given = [min(pair) for pair in zip(want.credits, self._spare_credits(now), strict=True)]
        for account, amount in zip(self._ledger.accounts, given, strict=True):
            if amount:
                account.give(amount, now)
        return Loan(per_s, (given[0], given[1], given[2]))

    @property
    def _lacks(self) -> bool:
        return self._short.per_s > 0 or self._ledger.short_copies > 0

    def _lent_floor(self) -> float:
        """Copies a second that siblings may have: of several leases of one sibling the largest."""
        return sum(max(per_s for _, per_s in leases) for leases in self._lent.values())

    def _own_floor(self, now: float) -> float:
        """Copies a second of the own part of the floor, less what is lent."""
        if now < self._floor_from:
            return 0.0
        return max(0.0, self._ledger.floor_per_s * self.part - self._lent_floor())

    def _spare_floor(self, now: float) -> float:
        """Copies a second that could be lent: a gateway that was denied copies lends none."""
        used = max(self._uses, default=0.0)
        return 0.0 if self._lacks else max(0.0, self._own_floor(now) - used)

    def _spare_credits(self, now: float) -> Credits:
        """Earnings that could be lent: all but the own burst, and that too where there is no work."""
        ledger = self._ledger
        found = [
            max(0, account.left(now) - (0 if idle else account.bounds.burst)) if not (short or lacked) else 0
            for account, idle, short, lacked in zip(
                ledger.accounts, self._idle, ledger.short, self._short.credits, strict=True
            )
        ]
        return found[0], found[1], found[2]

    def _settle(self, now: float) -> None:
        """Drop what has ended, and set the ledger's parts."""
        self._borrowed = {name: loan for name, loan in self._borrowed.items() if now < loan[0]}
        self._lent = {
            name: live
            for name, leases in self._lent.items()
            if (live := [lease for lease in leases if now < lease[0]])
        }
        whole = self._ledger.floor_per_s
        held = 0.0 if self._leaves else sum(per_s for _, per_s in self._borrowed.values())
        floor_part = min(1.0, (self._own_floor(now) + held) / whole) if whole else self.part
        self._ledger.divide(self.part, floor_part, now)


def _portion(wanted: float, spare: float, of_all: float) -> float:
    """Portion of what is wanted that one sibling is asked for, by what it has to spare."""
    return min(spare, wanted * spare / of_all) if of_all else 0.0
