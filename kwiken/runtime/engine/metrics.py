"""Metrics of an executor, read from the same counters as its decisions and its status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from kwiken.model.plan.accounts import BY_FLOOR, CALL, REQUEST, VERDICTS, Account
from kwiken.model.service.service import Service
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.labels import bounded
from kwiken.otel.metrics.model import MAX_PIECE, Distribution, Family, Metric, Rising, family, in_pieces
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger
from kwiken.runtime.decisions.lines.request_lines import KindLine
from kwiken.runtime.decisions.program import Program
from kwiken.runtime.decisions.stage_state import ATTEMPT_KINDS, ATTEMPT_OUTCOMES, StageState
from kwiken.runtime.engine.counts import Counts
from kwiken.runtime.engine.hedged_call.context import Shared
from kwiken.runtime.engine.line_gate import LineGate
from kwiken.runtime.metrics.snapshots import distribution

_DENYING = range(BY_FLOOR + 1, len(VERDICTS))
_PERCENTILES = {"0.5": "p50_ms", "0.9": "p90_ms", "0.95": "p95_ms", "0.99": "p99_ms", "0.999": "p999_ms"}


def families(
    service: Service,
    program: Program,
    states: Mapping[str, StageState],
    shared: Shared,
    counts: Counts,
    *,
    now: float,
    rising: Rising,
    gate: LineGate | None = None,
) -> Iterator[Family]:
    """Read all metrics of an executor, each when the iterator is asked for the metric.

    Args:
        shared: objects that all calls share.
        now: present moment, seconds.
        rising: returns the largest value of a counter so far, so that none falls between two readings.
        gate: gate of the lines of requests by kind; None for none.
    """
    yield from _requests(shared, counts, now)
    yield from _lines(gate)
    yield from _stages(service, states)
    yield from _budgets(states, shared.ledger, now, rising)
    yield from _replicas(states)
    yield from _plan(service, program, counts)


def _requests(shared: Shared, counts: Counts, now: float) -> Iterator[Family]:
    admission = shared.admission
    yield family(
        catalog.REQUEST_DURATION,
        (((outcome,), distribution(latencies)) for outcome, latencies in counts.latencies.items()),
    )
    yield family(
        catalog.REQUESTS_SHED, (((priority,), count) for priority, count in sorted(admission.shed.items()))
    )
    yield family(catalog.REQUESTS_ACTIVE, [((), admission.inside)])
    yield family(catalog.REQUESTS_ROOM, [((), round(admission.room))])
    yield family(catalog.LOAD, [((), admission.load(now))])
    yield family(catalog.REQUESTS_CONTROL, [((), counts.control)])
    yield family(catalog.REQUESTS_PARTIAL, [((), counts.partial)])
    yield family(catalog.UTILITY_LOST, (((cause,), lost) for cause, lost in counts.lost_utility.items()))


def _lines(gate: LineGate | None) -> Iterator[Family]:
    """Metrics of the lines; without lines they have no series."""
    lines = gate.lines if gate is not None else None
    by_name = lines.lines if lines is not None else {}
    waits = gate.waits if gate is not None else {}
    limit = lines.learner.limit if lines is not None else inf
    service_s = lines.learner.service_s if lines is not None else {}

    def by_kind(metric: Metric, value: Callable[[KindLine], float]) -> Family:
        return family(metric, (((kind,), value(line)) for kind, line in by_name.items()))

    yield family(catalog.LINES_LIMIT, [((), limit)] if limit < inf else [])
    yield by_kind(catalog.LINE_WAITING, lambda line: line.waiting)
    yield family(catalog.LINE_WAIT, (((kind,), distribution(those)) for kind, those in waits.items()))
    yield by_kind(catalog.LINE_TURNED_AWAY, lambda line: line.turned_away)
    yield family(catalog.LINE_SERVICE, (((kind,), seconds) for kind, seconds in service_s.items()))


def _stages(service: Service, states: Mapping[str, StageState]) -> Iterator[Family]:
    def by_stage(metric: Metric, value: Callable[[StageState], float | Distribution]) -> Iterator[Family]:
        return in_pieces(metric, (((name,), value(state)) for name, state in states.items()))

    yield from by_stage(catalog.CALL_DURATION, lambda state: distribution(state.latencies))
    yield from by_stage(catalog.CALLS_FAILED, lambda state: state.counts.failed)
    yield from by_stage(catalog.STAGE_CPU, lambda state: state.counts.busy_ms / 1000)
    yield from by_stage(catalog.LATE_CALLS, lambda state: state.counts.late_calls)
    yield from by_stage(catalog.COPIES_PUT_OFF, lambda state: state.counts.put_off)
    yield from by_stage(catalog.RETRIES_DENIED, lambda state: state.retries.denied)
    sorts = [(kind, outcome) for kind in ATTEMPT_KINDS for outcome in ATTEMPT_OUTCOMES]
    yield from in_pieces(
        catalog.ATTEMPTS,
        (
            ((name, *sort), count)
            for name, state in states.items()
            for sort, count in zip(sorts, state.counts.attempts, strict=True)
        ),
    )
    yield from in_pieces(
        catalog.STOPS,
        (
            ((name, stopped), state.counts.stops if stopped else state.counts.waits)
            for name, state in states.items()
            for stopped in (True, False)
        ),
    )
    yield from in_pieces(
        catalog.STAGE_INFO,
        (
            (
                (service.name, name, ",".join(stage.after), stage.fanout, stage.idempotent, stage.threads),
                1,
            )
            for name, stage in service.stages.items()
        ),
    )


def _budgets(
    states: Mapping[str, StageState], ledger: Ledger, now: float, rising: Rising
) -> Iterator[Family]:
    yield from in_pieces(
        catalog.COPIES_GRANTED,
        (
            ((name, lever), count)
            for name, state in states.items()
            for lever, count in (
                ("reissue", state.counts.copies),
                ("catch_up", state.counts.late_copies),
            )
        ),
    )
    yield from in_pieces(
        catalog.COPIES_DENIED,
        (
            ((name, reason), count)
            for name, state in states.items()
            for reason, count in (
                *((VERDICTS[verdict], state.account.denied[verdict]) for verdict in _DENYING),
                ("no_replica", state.counts.no_replica),
            )
        ),
    )
    yield from in_pieces(
        catalog.STAGE_BUDGET_LEFT,
        (((name,), state.account.left(now) / CALL) for name, state in states.items()),
    )
    levers = {"reissue": ledger.service, "catch_up": ledger.catch_up, "utility": ledger.utility}

    def by_lever(metric: Metric, value: Callable[[Account], float]) -> Family:
        return family(metric, (((lever,), value(account)) for lever, account in levers.items()))

    yield by_lever(catalog.BUDGET_WORK, lambda account: account.work / REQUEST)
    yield by_lever(catalog.BUDGET_LEFT, lambda account: account.left(now) / REQUEST)
    yield by_lever(catalog.BUDGET_FRACTION, lambda account: account.fraction)
    yield by_lever(catalog.BUDGET_HORIZON, lambda account: account.horizon_share(now))
    # A reservation for threads is refunded in part, so these sums may fall.
    for metric, amount in ((catalog.BUDGET_EARNED, _earned), (catalog.BUDGET_SPENT, _spent)):
        yield family(
            metric,
            (((lever,), rising((metric.name, lever), amount(account))) for lever, account in levers.items()),
        )
    yield family(
        catalog.BUDGET_DENIED,
        (
            ((lever, VERDICTS[verdict]), account.denied[verdict])
            for lever, account in levers.items()
            for verdict in _DENYING
        ),
    )


def _earned(account: Account) -> float:
    return account.earned / REQUEST


def _spent(account: Account) -> float:
    return account.spent / REQUEST


class _Seen(NamedTuple):
    """State of one replica, or of several replicas that share one series."""

    ejected: int
    active: int
    latency_s: float


def _merged(several: list[_Seen]) -> _Seen:
    return _Seen(
        sum(seen.ejected for seen in several),
        sum(seen.active for seen in several),
        max(seen.latency_s for seen in several),
    )


def _replicas(states: Mapping[str, StageState]) -> Iterator[Family]:
    found: list[tuple[tuple[str, ...], _Seen]] = []
    numbers: list[tuple[tuple[str, ...], int]] = []
    for name, state in states.items():
        targets = sorted(state.picker.targets, key=lambda target: target.replica.id)
        ejected = sum(target.ejected for target in targets)
        numbers += [((name, "live"), len(targets) - ejected), ((name, "ejected"), ejected)]
        seen = (
            (
                (target.replica.id, target.replica.node),
                _Seen(int(target.ejected), len(target.waiting), target.latency),
            )
            for target in targets
        )
        found += [((name, *labels), values) for labels, values in bounded(seen, _merged)]
        if len(numbers) >= MAX_PIECE:
            yield family(catalog.STAGE_REPLICAS, numbers)
            numbers = []
    yield family(catalog.STAGE_REPLICAS, numbers)
    yield from in_pieces(catalog.REPLICA_EJECTED, ((labels, seen.ejected) for labels, seen in found))
    yield from in_pieces(catalog.REPLICA_ACTIVE, ((labels, seen.active) for labels, seen in found))
    yield from in_pieces(catalog.REPLICA_LATENCY, ((labels, seen.latency_s) for labels, seen in found))


def _plan(service: Service, program: Program, counts: Counts) -> Iterator[Family]:
    plan = program.plan
    digest, created = (plan.digest, plan.created) if plan is not None else ("", "")
    yield family(catalog.PLAN_INFO, [((service.name, digest, created), 1)])
    yield family(catalog.PLAN_CHANGES, [((), counts.plans)])
    yield from in_pieces(
        catalog.PLAN_AFTER,
        (((stage.name,), stage.reissue.present) for stage in program.stages if stage.reissue.after < inf),
    )
    expected = plan.expected if plan is not None else None
    if expected is not None:
        yield family(
            catalog.PLAN_EXPECTED,
            (
                ((quantile,), milliseconds / 1000)
                for quantile, name in _PERCENTILES.items()
                if (milliseconds := getattr(expected.after, name))
            ),
        )
