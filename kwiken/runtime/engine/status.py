"""Status of an executor as plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from kwiken.model.plan.accounts import BY_FLOOR, CALL, REQUEST, VERDICTS, Account
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram, RecentLatencies
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger
from kwiken.runtime.decisions.program import Program
from kwiken.runtime.decisions.stage_state import StageState
from kwiken.runtime.engine.counts import Arms, Counts
from kwiken.runtime.engine.hedged_call.context import Shared
from kwiken.runtime.engine.line_gate import LineGate
from kwiken.runtime.engine.status_document import (
    AccountStatus,
    ExecutorStatus,
    RecentStatus,
    ReplicaStatus,
    StageStatus,
)


def status(
    program: Program,
    states: Mapping[str, StageState],
    shared: Shared,
    counts: Counts,
    arms: Arms,
    *,
    now: float,
    gate: LineGate | None = None,
) -> ExecutorStatus:
    """Counters, budgets, load, lines and replica states of an executor."""
    admission, ledger = shared.admission, shared.ledger
    return {
        "plan": program.digest,
        "trial": arms.trial.digest if arms.trial is not None else None,
        "trial_share": arms.trial_share,
        "control_share": arms.control_share,
        "arms": arms.status(),
        "requests": counts.requests,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "partial": counts.partial,
        "control": counts.control,
        "lost_utility": dict(counts.lost_utility),
        "recent": _recent(counts.recent, now),
        "shed": admission.shed.total(),
        "inside": admission.inside,
        "room": round(admission.room),
        "load": round(admission.load(now), 4),
        "line_ms": _ms(admission.line_s),
        "lines": _lines(gate) if gate is not None else None,
        "reissues": sum(state.counts.copies for state in states.values()),
        "late_reissues": sum(state.counts.late_copies for state in states.values()),
        "retries": sum(state.retries.spent + state.counts.resends for state in states.values()),
        "ledger": {
            **_account(ledger.service, REQUEST, now),
            "observed_share": ledger.observed.extra_share,
            "part": ledger.part,
            "floor_part": ledger.floor_part,
        },
        "catch_up": _account(ledger.catch_up, REQUEST, now),
        "utility": _account(ledger.utility, REQUEST, now),
        "traces": None
        if shared.sampler is None
        else {"kept": dict(shared.sampler.kept), "dropped": shared.sampler.dropped},
        "stages": {
            stage.name: _stage(stage, states[stage.name], now, _observed_cost(stage, program, ledger))
            for stage in program.stages
        },
    }


def _observed_cost(stage: CompiledStage, program: Program, ledger: Ledger) -> float | None:
    """Observed cost of one call, as a share of a request's; None where too little is known."""
    mean_ms = stage.state.work.answered.mean
    return ledger.observed.cost(mean_ms, program.observable) / REQUEST or None


def _lines(gate: LineGate) -> dict[str, Any]:
    """Status of the lines: how many requests run and wait, and the waits of each kind."""
    lines = gate.lines
    none = LatencyHistogram()
    limit = lines.learner.limit
    return {
        "limit": limit if limit < inf else None,
        "running": lines.running,
        "waiting": lines.waiting,
        "kinds": {
            kind: {
                "running": line.running,
                "waiting": line.waiting,
                "started": line.started,
                "waited": line.waited,
                "turned_away": line.turned_away,
                "left": line.left,
                "service_ms": _ms(lines.learner.service_s.get(kind)),
                "wait_p50_ms": _ms(gate.waits.get(kind, none).quantile(0.5)),
                "wait_p99_ms": _ms(gate.waits.get(kind, none).quantile(0.99)),
            }
            for kind, line in lines.lines.items()
        },
    }


def _account(account: Account, unit: int, now: float) -> AccountStatus:
    """Status of an account, in requests' costs or utilities for the service, in calls for a stage."""
    return {
        "fraction": account.fraction,
        "work": account.work / unit,
        "spent": account.spent / unit,
        "spent_share": account.spent / account.work if account.work else 0.0,
        "horizon_s": account.bounds.horizon_s,
        "horizon_share": account.horizon_share(now),
        "left": account.left(now) / unit,
        "peak": account.bounds.peak,
        "share_10s": account.share_10s(now),
        "worst_10s": account.worst,
        "floor_spent": account.floor_spent / unit,
        "denied": sum(account.denied),
        "denied_by": dict(zip(VERDICTS[BY_FLOOR + 1 :], account.denied[BY_FLOOR + 1 :], strict=True)),
    }


def _recent(recent: RecentLatencies, now: float) -> RecentStatus:
    """Rate and latencies of the last seconds."""
    p50_s, p99_s = recent.quantiles((0.5, 0.99))
    return {
        "answered": recent.count,
        "rate_per_s": recent.rate_per_s(now),
        "p50_ms": _ms(p50_s),
        "p99_ms": _ms(p99_s),
    }


def _stage(stage: CompiledStage, state: StageState, now: float, observed: float | None) -> StageStatus:
    return {
        "foreign": stage.definition.remote is not None,
        "streams": stage.definition.streams,
        "calls": state.latencies.count,
        "failed": state.counts.failed,
        "reissues": state.counts.copies,
        "put_off": state.counts.put_off,
        "retries": state.retries.spent,
        "resends": state.counts.resends,
        "p50_ms": _ms(state.latencies.quantile(0.5)),
        "p99_ms": _ms(state.latencies.quantile(0.99)),
        "recent": _recent(state.recent, now),
        "busy_ms": round(state.counts.busy_ms, 3),
        "late": {
            "copies": state.counts.late_copies,
            "calls": state.counts.late_calls,
            "threads": state.counts.late_threads,
        },
        "partial": {"stops": state.counts.stops, "waits": state.counts.waits},
        "ledger": _account(state.account, CALL, now),
        "replicas": [_replica(target) for target in state.picker.targets],
        "cost": {"charged": stage.cost / REQUEST, "observed": observed},
    }


def _replica(target: ReplicaState) -> ReplicaStatus:
    return {
        "id": target.replica.id,
        "node": target.replica.node,
        "address": target.replica.address,
        "inflight": len(target.waiting),
        "latency_ms": _ms(target.latency or None),
        "ejected": target.ejected,
        "failing": round(target.record.share, 3),
        "trouble": target.trouble,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
