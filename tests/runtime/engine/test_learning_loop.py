"""Learning loop on the real executor, in virtual time: run, trace, fit, plan, apply, run again.

One stage is late by its requests' size, the other because its replicas pause now and then. No copy was
ever sent when the plan is made.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import AttemptKind, RequestRecord
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.tail.curves.copy_correlation import copy_correlation
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import executor_of

REQUESTS = 2500
BUDGET = 0.05
SERVICE = Service.of(
    "shop",
    [
        Stage(name="size", replicas=4, idempotent=True),
        Stage(name="pause", after=("size",), replicas=4, idempotent=True),
    ],
)


@dataclass
class Queues:
    """Transport whose replicas work on one call at a time; those of `pause` pause now and then."""

    rng: random.Random
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    awake_at: dict[str, float] = field(default_factory=dict)
    sizes: dict[int, float] = field(default_factory=dict)

    async def call(self, replica: Replica, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        assert call.trace_id is not None
        size = self.sizes.setdefault(call.trace_id, self.rng.lognormvariate(0, 1.0))
        work = 0.010 * size if call.stage == "size" else 0.010 * self.rng.uniform(0.9, 1.1)
        async with self.locks.setdefault(replica.id, asyncio.Lock()):
            if call.stage == "pause" and self.rng.random() < 0.01:
                self.awake_at[replica.id] = loop.time() + self.rng.uniform(0.1, 0.3)
            await asyncio.sleep(max(0.0, self.awake_at.get(replica.id, 0.0) - loop.time()))
            await asyncio.sleep(work)
        return Reply("ok", busy_ms=1000 * work)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, self.awake_at.get(replica.id, 0.0) - loop.time()), heard, True)


@dataclass
class Kept:
    """Observer that collects records, and writes them to a folder of spans."""

    folder: Path
    records: list[RequestRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spans = make_observer("shop", traces=self.folder)

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)
        self.spans.request_finished(record)


def run(folder: Path, plan: Plan | None, seed: int) -> list[RequestRecord]:
    """Requests in open loop, at random times."""
    kept = Kept(folder)

    async def main() -> None:
        rng = random.Random(seed)
        executor = executor_of(SERVICE, Queues(random.Random(seed + 1)), observer=kept, seed=seed)
        executor.apply(plan)
        tasks = []
        for _ in range(REQUESTS):
            await asyncio.sleep(rng.expovariate(1 / 0.05))
            tasks.append(asyncio.create_task(executor.run("q")))
        await asyncio.gather(*tasks)
        await asyncio.sleep(1.0)  # the last pause ends, and its probe is answered

    simulate(main)
    kept.spans.close()
    return kept.records


def planned(folder: Path) -> PlanStudy:
    profile = fit_profile([folder])
    assert profile.requests == REQUESTS
    rho = {s.name: copy_correlation(s, EmpiricalDistribution.of(s.calls_ms)) for s in profile.stages[1:]}
    assert all(found.pairs == 0 and found.guesses >= 10 for found in rho.values())
    assert rho["size"].rho > 0.75
    assert rho["pause"].rho < 0.1
    return study_plan(
        profile,
        PlanSettings(
            budgets=Budgets(reissue=BUDGET),
            created="2026-01-01T00:00:00Z",
            cost="calls",
            ledger=LedgerTerms(),
        ),
    )


def test_copies_go_where_replicas_are_late_and_not_where_requests_are_large(tmp_path: Path) -> None:
    before = run(tmp_path / "before", None, seed=1)
    study = planned(tmp_path / "before")
    shares = study.allocation.fractions
    assert shares["pause"] > 4 * shares.get("size", 0.0)
    after = run(tmp_path / "after", study.plan, seed=2)
    copies = {"size": 0, "pause": 0}
    for record in after:
        for stage in record.stages:
            copies[stage.name] += sum(a.kind is AttemptKind.REISSUE for a in stage.attempts)
    # No copy is denied, as so few are below the ledger's floor: only the time-out keeps the spend near the budget.
    assert sum(copies.values()) <= 1.3 * BUDGET * 2 * REQUESTS
    assert copies["pause"] > 4 * copies["size"]
    p99 = [np.percentile([r.end_ns - r.start_ns for r in records], 99) for records in (before, after)]
    assert p99[1] < 0.9 * p99[0]
    assert len(before) == len(after) == REQUESTS
    again = fit_profile([tmp_path / "after"]).stage("pause")
    assert again.pairs_ms is not None
    # Not quite none: a paused replica sends its calls to the others.
    assert copy_correlation(again, EmpiricalDistribution.of(again.calls_ms)).rho < 0.4, "about as was guessed"
