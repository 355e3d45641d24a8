"""Small state machines: admission, stop rule, latency histogram, and the compiler of plans."""

from __future__ import annotations

import random
from math import inf

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.model.plan.accounts import CALL, REQUEST
from kwiken.model.plan.ledger_terms import BURST_COPIES, BURST_REQUESTS, RESERVE_SHARE, LedgerTerms
from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.decisions.admission import Admission, Limits
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram, RecentLatencies
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RetryAccount
from kwiken.runtime.decisions.program import compile_program, retune
from kwiken.runtime.decisions.stage_state import StageState
from kwiken.runtime.decisions.stop_rule import DONE, FAIL, STOP, WAIT, FanOut
from kwiken.runtime.replica.stage_runner import CallOverhead, CpuMeter, metered
from tests.support.runtime.replicas import plan_of, replicas_of, service_of

LIMITS = Limits(requests=100, always=10)


def filled(count: int, *, took: float = 0.0, allowed: float = 1.0) -> Admission:
    """Admission with a number of requests inside, and many past requests of one duration."""
    admission = Admission(LIMITS)
    for _ in range(200):
        admission.enter(0.0, 9)
        admission.leave(0.0, took=took, allowed=allowed)
    admission.inside = count
    return admission


def lets_in(admission: Admission, priority: int = 0, now: float = 0.0) -> bool:
    return admission.enter(now, priority) is None


@pytest.mark.parametrize(
    ("inside", "calm", "low", "normal", "high"),
    [
        (5, True, True, True, True),
        (49, True, True, True, True),
        (50, False, True, True, True),
        (70, False, False, True, True),
        (85, False, False, False, True),
        (100, False, False, False, False),
    ],
)
def test_load_decides_about_copies_and_priorities(
    inside: int, calm: bool, low: bool, normal: bool, high: bool
) -> None:
    assert (filled(inside).spare_capacity(0.0) > 0) is calm
    assert [lets_in(filled(inside), priority) for priority in (-1, 0, 1)] == [low, normal, high]


@pytest.mark.parametrize(
    ("took", "calm", "low", "normal"), [(0.4, True, True, True), (0.6, False, True, True)]
)
def test_slowness(took: float, calm: bool, low: bool, normal: bool) -> None:
    admission = filled(20, took=took)
    assert (admission.spare_capacity(0.0) > 0) is calm
    assert lets_in(admission, -1) is low
    assert lets_in(admission, 0) is normal


def test_slow_requests_one_at_a_time_are_no_overload() -> None:
    assert lets_in(filled(5, took=1.0), -1)
    assert filled(5, took=1.0).spare_capacity(0.0) > 0


def test_silence_is_forgiven() -> None:
    admission = filled(20, took=1.0)
    assert not lets_in(admission, 0, now=0.5)
    assert lets_in(admission, 0, now=8.0)


def test_retry_after_is_the_expected_wait() -> None:
    waits = [filled(100, took=took, allowed=100.0).enter(0.0, 0) for took in (0.001, 1.0, 60.0)]
    assert waits == pytest.approx([LIMITS.least_retry_after_s, 2.0, LIMITS.most_retry_after_s], rel=0.01)


@given(events=st.lists(st.tuples(st.integers(-2, 2), st.booleans(), st.floats(0, 5)), max_size=200))
def test_never_more_inside_than_allowed(events: list[tuple[int, bool, float]]) -> None:
    admission = Admission(Limits(requests=8, always=2))
    now, inside = 0.0, 0
    for priority, enters, wait in events:
        now += wait
        if enters:
            inside += admission.enter(now, priority) is None
        elif inside:
            admission.leave(now, took=wait, allowed=1.0)
            inside -= 1
        assert admission.inside == inside <= 8
        assert 0 <= admission.load(now) <= 1


# Stop rule.


def policy(
    cutoff_ms: float | None = None, wait_ms: float | None = None, progress: float = 1.0
) -> PartialPolicy:
    return PartialPolicy(cutoff_ms=cutoff_ms, wait_ms=wait_ms, progress=progress, loss=0.0)


def test_without_a_policy_all_must_answer() -> None:
    fan_out = FanOut(3, None, 0.0)
    assert fan_out.due == inf
    assert [fan_out.answered(shard, shard, 1.0) for shard in (2, 0, 1)] == [WAIT, WAIT, DONE]
    assert fan_out.values == [0, 1, 2]
    assert fan_out.complete


def test_without_a_policy_one_failure_fails() -> None:
    fan_out = FanOut(3, None, 0.0)
    error = ValueError()
    assert fan_out.failed(error) == FAIL
    assert fan_out.error is error
    assert fan_out.answered(1, "late", 1.0) == WAIT
    assert fan_out.values == [None, None, None]


def test_a_shard_that_fails_may_be_missed_under_a_policy() -> None:
    fan_out = FanOut(2, policy(1000), 0.0)
    assert fan_out.failed(ValueError()) == WAIT
    assert fan_out.answered(1, "x", 0.1) == DONE
    assert not fan_out.complete
    assert fan_out.error is None


def test_all_failing_fails_under_a_policy_too() -> None:
    fan_out = FanOut(2, policy(1000), 0.0)
    assert fan_out.failed(ValueError()) == WAIT
    assert fan_out.failed(ValueError()) == FAIL


@pytest.mark.parametrize(
    ("rule", "arrivals", "stop"),
    [
        (policy(100.0), [0.01, 0.05, 0.3], 0.1),
        (policy(100.0), [0.01, 0.05, 0.06], 0.06),
        (policy(None, 20.0, 0.6), [0.01, 0.05, 0.3], 0.07),
        (policy(60.0, 20.0, 0.6), [0.01, 0.05, 0.3], 0.06),
        (policy(100.0, 0.0, 0.6), [0.01, 0.05, 0.3], 0.05),
        (policy(100.0), [0.2, 0.3, 0.4], 0.2),
        (policy(100.0, None, 0.3), [0.01, 0.3, 0.4], 0.1),
    ],
)
def test_stop_time_is_the_earlier_of_cut_off_and_progress(
    rule: PartialPolicy, arrivals: list[float], stop: float
) -> None:
    """Spec: min(T_c, t_(ceil(pn)) + T_d, t_(n)), but never before the first answer."""
    fan_out = FanOut(len(arrivals), rule, 0.0)
    pending = sorted((at, shard) for shard, at in enumerate(arrivals))
    while True:
        if fan_out.due <= (pending[0][0] if pending else inf) and fan_out.tick(fan_out.due) == STOP:
            assert fan_out.due == pytest.approx(stop)
            return
        at, shard = pending.pop(0)
        if fan_out.answered(shard, "x", at) in {STOP, DONE}:
            assert at == pytest.approx(stop)
            return


def test_a_stop_that_is_not_granted_waits_and_asks_when_half_as_many_are_missing() -> None:
    fan_out = FanOut(8, policy(100.0), 0.0)
    assert fan_out.answered(0, "x", 0.01) == WAIT
    assert fan_out.tick(0.1) == STOP
    fan_out.wait_on()
    assert (fan_out.due, fan_out.tick(0.2)) == (inf, WAIT)
    steps = [fan_out.answered(shard, "x", 0.2 + shard / 100) for shard in range(1, 5)]
    assert steps == [WAIT, WAIT, WAIT, STOP], "7 were missing, so it asks when 3 are"
    fan_out.wait_on()
    assert [fan_out.answered(shard, "x", 0.3) for shard in (5, 6, 7)] == [WAIT, STOP, DONE]
    assert fan_out.complete


def test_a_granted_stop_ends_the_fan_out() -> None:
    fan_out = FanOut(2, policy(100.0), 0.0)
    fan_out.answered(1, "x", 0.01)
    assert fan_out.tick(0.1) == STOP
    fan_out.stop()
    assert fan_out.answered(0, "late", 0.2) == WAIT
    assert fan_out.values == [None, "x"]


def test_a_patient_gathering_waits_for_all_but_may_miss_what_fails() -> None:
    fan_out = FanOut(3, policy(100.0), 0.0, wait_for_all=True)
    assert fan_out.due == inf
    assert [fan_out.answered(0, "x", 0.5), fan_out.failed(ValueError()), fan_out.answered(2, "x", 9.0)] == [
        WAIT,
        WAIT,
        DONE,
    ]
    assert not fan_out.complete


def test_a_share_of_the_shards_is_not_rounded_up_by_the_float() -> None:
    fan_out = FanOut(100, policy(None, 0.0, 0.07), 0.0)  # 0.07 * 100 is a little more than 7
    assert [fan_out.answered(shard, "x", 0.1) for shard in range(7)] == [WAIT] * 6 + [STOP]


# Latency histogram.


@given(latency=st.floats(1e-6, 4000))
def test_sketch_is_right_to_a_few_percent(latency: float) -> None:
    latencies = LatencyHistogram()
    latencies.add(latency)
    assert latencies.quantile(0.5) == pytest.approx(latency, rel=0.032)


def test_sketch_quantiles() -> None:
    latencies = LatencyHistogram()
    assert latencies.quantile(0.5) is None
    for index in range(1, 1001):
        latencies.add(index / 1000)
    for share in (0.01, 0.5, 0.99, 1.0):
        assert latencies.quantile(share) == pytest.approx(share, rel=0.04)


@pytest.mark.parametrize("odd", [0.0, -1.0, 1e-12, 1e9])
def test_sketch_keeps_what_is_off_the_grid(odd: float) -> None:
    latencies = LatencyHistogram()
    latencies.add(odd)
    assert sum(latencies.cells) == latencies.count == 1


# Limits and compiled plans.


def test_limits_refuse_unknown_fields() -> None:
    with pytest.raises(msgspec.ValidationError, match="burst"):
        msgspec.convert({"burst": 3}, Limits)


def compiled() -> tuple[object, dict[str, StageState], Ledger]:
    service = service_of(
        Stage(name="f", fanout=4, replicas=2, idempotent=True), Stage(name="m", after=("f",), replicas=2)
    )
    states = {
        name: StageState(replicas_of(name, 2), RetryAccount(0.1, 32), random.Random(1))
        for name in service.stages
    }
    plan = plan_of(
        service, {"f": Reissue(after_ms=20, fraction=0.1)}, budget=0.05, costs={"f": 0.6, "m": 0.4}
    )
    program = compile_program(service, plan, states)
    ledger = Ledger()
    retune(ledger, states, program, service=service, now=0.0)
    assert [stage.cost for stage in program.stages] == [round(0.15 * REQUEST), round(0.4 * REQUEST)]
    assert program.request_budget == REQUEST
    assert not program.serial
    assert program.dearest_copy == round(0.15 * REQUEST)
    assert [stage.reissue.after for stage in program.stages] == [0.02, inf]
    return program, states, ledger


def test_accounts_get_the_plans_budgets() -> None:
    _, states, ledger = compiled()
    terms = LedgerTerms()
    share = 0.05 * (1 - RESERVE_SHARE)
    assert ledger.service.bounds == terms.service_bounds(share, least_burst=round(0.15 * REQUEST))
    assert ledger.service.left(0.0) == round(share * BURST_REQUESTS * REQUEST)
    assert states["f"].account.bounds == terms.stage_bounds(Reissue(after_ms=20, fraction=0.1))
    assert states["f"].account.left(0.0) == BURST_COPIES * CALL
    assert states["m"].account.fraction == 0.0
    assert [ledger.floor.take(0.0) for _ in range(7)] == [True] * 6 + [False]


def test_the_spare_capacity_falls_with_the_load() -> None:
    assert filled(0).spare_capacity(0.0) == inf
    rooms = [filled(inside).spare_capacity(0.0) for inside in (20, 40, 48, 50, 60)]
    assert rooms == pytest.approx([1.5, 0.25, 0.5 / 0.48 - 1, 0.0, 0.0])


def test_burst_always_fits_the_dearest_copy() -> None:
    service = service_of(Stage(name="s", replicas=2, idempotent=True))
    states = {"s": StageState(replicas_of("s", 2), RetryAccount(0.1, 32), random.Random(1))}
    program = compile_program(service, plan_of(service, {"s": Reissue(after_ms=1)}, budget=0.001), states)
    ledger = Ledger()
    retune(ledger, states, program, service=service, now=0.0)
    assert ledger.service.left(0.0) == REQUEST


def test_a_call_is_charged_its_share_of_the_cpu_time_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    burnt = iter([1_000_000, 2_500_000, 3_000_000, 5_500_000, 6_000_000])
    monkeypatch.setattr("kwiken.runtime.replica.stage_runner.time.thread_time_ns", lambda: next(burnt))

    async def work() -> None:
        return None

    overhead = CallOverhead()
    overhead.start()
    shares = []
    for _ in range(2):
        meter = CpuMeter()
        with pytest.raises(StopIteration):
            metered(work(), meter).send(None)
        assert meter.ns == 500_000
        shares.append(overhead.share_ms(meter))
    # 2 ms until the end of the first call, 0.5 metered; 5 ms until the end of the second, 1 metered.
    assert shares == [pytest.approx(1.5), pytest.approx(2.0)]


def test_recent_latencies_are_those_of_the_last_intervals() -> None:
    latencies = LatencyHistogram()
    recent = RecentLatencies(latencies, steps=2)
    latencies.add(9.0)
    assert (recent.count, recent.rate_per_s(1.0), recent.quantiles((0.5,))) == (0, None, [None])
    recent.step(1.0)
    for _ in range(30):
        latencies.add(0.010)
    recent.step(2.0)
    for _ in range(10):
        latencies.add(0.100)
    assert recent.rate_per_s(3.0) == 20
    assert recent.quantiles((0.5, 0.99)) == [pytest.approx(0.010, rel=0.04), pytest.approx(0.100, rel=0.04)]
    recent.step(3.0)  # the interval of 10 ms is forgotten
    assert recent.count == 10
    assert recent.quantiles((0.0,)) == [pytest.approx(0.100, rel=0.04)]


@given(st.lists(st.lists(st.floats(1e-6, 1e3), max_size=30), min_size=1, max_size=8), st.integers(1, 4))
def test_recent_latencies_equal_a_histogram_of_their_own(intervals: list[list[float]], steps: int) -> None:
    every, last = LatencyHistogram(), LatencyHistogram()
    recent = RecentLatencies(every, steps)
    for number, interval in enumerate(intervals):
        recent.step(float(number))
        for latency in interval:
            every.add(latency)
            if number >= len(intervals) - steps:
                last.add(latency)
    assert recent.count == last.count
    assert recent.quantiles((0.0, 0.5, 1.0)) == [last.quantile(share) for share in (0.0, 0.5, 1.0)]
