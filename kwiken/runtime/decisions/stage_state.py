"""State of one stage that outlives plans: replicas, accounts, learned latencies and counters."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from kwiken.model.plan.accounts import Account
from kwiken.model.plan.observed_work import UsualWork
from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.decisions.delays.common_delay import UsualLatency
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram, RecentLatencies
from kwiken.runtime.decisions.ledger.budget_ledger import RetryAccount
from kwiken.runtime.wire.transport.base import Replica

RECENT_STEPS = 10  # intervals that count as recent; one a second where a gateway runs
ATTEMPT_KINDS: Final = ("primary", "reissue", "catch_up", "retry")
ATTEMPT_OUTCOMES: Final = ("won", "lost", "cancelled", "failed")


class StageCounts:
    """Numbers of a stage's calls, copies and partial answers so far, for monitoring.

    Attributes:
        attempts: ended attempts, by kind and then by outcome, in the order of `ATTEMPT_KINDS` and
            `ATTEMPT_OUTCOMES`.
        busy_ms: CPU time that replicas reported with their answers, milliseconds.
        failed: calls that no attempt answered.
        copies: copies that the reissue budget paid for.
        resends: attempts sent again because a replica had refused them, had died or hung.
        late_copies: copies that the catch-up budget paid for.
        late_calls: calls that started late and got more threads or priority.
        late_threads: calls that got more than one thread.
        stops: fan-outs cut short by the plan's stop rule.
        no_replica: copies that were due and found no replica to go to.
        put_off: calls whose copy was due and waited because calls of all stages took long.
        waits: fan-outs that waited on, without budget for the lost utility.
    """

    __slots__ = (
        "attempts",
        "busy_ms",
        "copies",
        "failed",
        "late_calls",
        "late_copies",
        "late_threads",
        "no_replica",
        "put_off",
        "resends",
        "stops",
        "waits",
    )

    def __init__(self) -> None:
        self.attempts = [0] * (len(ATTEMPT_KINDS) * len(ATTEMPT_OUTCOMES))
        self.busy_ms = 0.0
        self.failed = 0
        self.no_replica = 0
        self.put_off = 0
        self.copies = 0
        self.resends = 0
        self.late_copies = 0
        self.late_calls = 0
        self.late_threads = 0
        self.stops = 0
        self.waits = 0


class StageState:
    """State of one stage that outlives plans.

    Attributes:
        picker: choice among the replicas.
        account: account of the stage's copies.
        latencies: latencies of its answered calls.
        recent: those of the last intervals.
        usual: usual latency of the first answer of a visit.
        work: usual work of its calls.
        counts: counters for monitoring.
    """

    __slots__ = ("account", "counts", "latencies", "picker", "recent", "retries", "usual", "work")

    def __init__(self, replicas: Iterable[Replica], retries: RetryAccount, rng: random.Random) -> None:
        self.picker = Picker(replicas, rng)
        self.account = Account()
        self.retries = retries
        self.latencies = LatencyHistogram()
        self.recent = RecentLatencies(self.latencies, RECENT_STEPS)
        self.usual = UsualLatency()
        self.work = UsualWork()
        self.counts = StageCounts()
