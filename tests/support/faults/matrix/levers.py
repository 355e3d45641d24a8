"""Levers of the fault matrix: plans by name, their budgets, and what the replicas may have been asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, Plan
from kwiken.model.service.stage import Reissue
from tests.support.faults.matrix.service import SHARDS, service
from tests.support.runtime.replicas import plan_of

NONE, REISSUE, PARTIAL, CATCH_UP, ALL = LEVERS = ("no lever", "reissue", "partial", "catch-up", "all")
COSTS: Final = {"look": 0.7, "join": 0.3}  # of one visit, as shares of a request
CALLS: Final = {"look": SHARDS, "join": 1}  # of one visit
BUDGET: Final = 0.1  # of reissues, of catch-up, and of lost utility
BURST_REQUESTS: Final = 50  # whose budget may be spent at once; as `docs/reference` states it
LEVELS: Final = LedgerTerms(floor_per_s=0.0)  # no copies beyond the budget


def plan(lever: str, *, after_ms: float = 40.0) -> Plan | None:
    """Plan of a lever; None for none.

    Args:
        after_ms: moment of copies, and age at which a request is late, milliseconds; a stage is cut at three times it.
    """
    if lever == NONE:
        return None
    reissue = {"look": Reissue(after_ms=after_ms, fraction=BUDGET)} if lever in {REISSUE, ALL} else None
    cut = PartialPolicy(cutoff_ms=3 * after_ms, wait_ms=None, progress=1.0, loss=BUDGET)
    late = {
        "look": CatchUpPolicy(after_ms=after_ms, reissue=True),
        "join": CatchUpPolicy(after_ms=after_ms, threads=2, priority=True),
    }
    return plan_of(
        service,
        reissue,
        budget=BUDGET if reissue else 0.0,
        partial={"look": cut} if lever in {PARTIAL, ALL} else None,
        utility_loss=BUDGET,
        late=late if lever in {CATCH_UP, ALL} else None,
        catch_up=BUDGET,
        costs=COSTS,
        ledger=LEVELS,
    )


@dataclass
class Books:
    """What the replicas' own count says was asked for beyond one call of each, beside what the budgets allow.

    Attributes:
        extra: calls beyond the first of each request, stage and shard, in whole requests.
        retried: the same of the calls that the gateway sent again because an attempt failed.
        lost: utility that the answers lacked by the clients' own count, in whole answers.
        earned: requests during which a budget was in force, by the budget's name.
        bursts: number of gateways that had a budget, each of which may spend a burst at once, by name.
    """

    extra: float = 0.0
    retried: float = 0.0
    lost: float = 0.0
    earned: Counter[str] = field(default_factory=Counter)
    bursts: dict[str, set[int]] = field(default_factory=dict)

    def add(
        self, calls: Counter[tuple[str, int, int]], retries: dict[str, int], lever: str, life: set[int]
    ) -> None:
        """Add what one cell of the matrix did.

        Args:
            calls: number of calls that the replicas started, by stage, request and shard.
            retries: number of calls that the gateway says it sent again, by stage.
            lever: lever in force.
            life: numbers of the gateways that served meanwhile.
        """
        requests = len({number for _, number, _ in calls})
        for (stage, _, _), count in calls.items():
            self.extra += (count - 1) * COSTS[stage] / CALLS[stage]
        self.retried += sum(count * COSTS[stage] / CALLS[stage] for stage, count in retries.items())
        for name, levers in (
            ("reissue", (REISSUE, ALL)),
            ("catch-up", (CATCH_UP, ALL)),
            ("utility", (PARTIAL, ALL)),
        ):
            if lever in levers:
                self.earned[name] += requests
                self.bursts.setdefault(name, set()).update(life)

    def allowed(self, name: str) -> float:
        """What a budget allows by now, in whole requests or answers."""
        return BUDGET * (self.earned[name] + BURST_REQUESTS * len(self.bursts.get(name, ())))

    def check(self) -> None:
        """Fail if a budget was passed."""
        most = self.allowed("reissue") + self.allowed("catch-up") + self.retried
        assert self.extra <= most + 1e-6, f"{self.extra:.2f} requests of extra calls, {most:.2f} are allowed"
        assert self.lost <= self.allowed("utility") + 1e-6, f"{self.lost:.2f} answers lost"
