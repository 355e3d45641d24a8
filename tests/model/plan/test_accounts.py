"""Contract of the accounts: horizon, peak, floor, changes of plans, and jumps of the clock."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from math import inf

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kwiken.model.plan.accounts import (
    BY_FLOOR,
    CALL,
    FLOOR_BURST,
    HORIZON,
    LOAD,
    PEAK,
    REQUEST,
    STAGE_HORIZON,
    STAGE_PEAK,
    VERDICTS,
    WITHIN,
    Account,
    Floor,
    LedgerBounds,
    grant,
)
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.windows import HORIZON_BUCKETS
from kwiken.model.service.stage import Reissue

HORIZON_S = 60.0  # short, so that a fuzzed sequence passes it

fractions = st.one_of(st.just(0.0), st.floats(0.001, 1.0), st.just(1.0))
some_bounds = st.builds(
    LedgerBounds,
    fraction=fractions,
    burst=st.integers(0, 500),
    peak=st.floats(0, 2),
    peak_grace=st.one_of(st.just(0), st.integers(0, 100)),
    horizon_s=st.just(HORIZON_S),
)


@dataclass
class Work:
    at: float
    amount: int
    fraction: float
    refill: bool


@dataclass
class Spend:
    at: float
    cost: int
    fraction: float = 0.0


class Contract(RuleBasedStateMachine):
    """An account and its floor under any sequence of work, copies, waiting and changes of plans."""

    @initialize(bounds=some_bounds, per_s=st.sampled_from([0.0, 0.5, 3.0]), start=st.floats(0, 1e6))
    def begin(self, bounds: LedgerBounds, per_s: float, start: float) -> None:
        self.now, self.bounds, self.per_s = start, bounds, per_s
        self.account, self.floor = Account(bounds), Floor(per_s)
        self.burst = bounds.burst
        self.work: list[Work] = []
        self.spends: list[Spend] = []
        self.copies: list[tuple[float, int]] = []
        self.lowered = False

    @rule(wait=st.one_of(st.floats(0, 1), st.floats(0, 15), st.floats(0, 100)))
    def wait(self, wait: float) -> None:
        self.now += wait

    @rule(amount=st.integers(0, 1000), refill=st.booleans())
    def earn(self, amount: int, refill: bool) -> None:
        self.account.earn(amount, self.now, refill=refill)
        self.work.append(Work(self.now, amount, self.account.fraction if refill else 0.0, refill))

    @rule(bounds=some_bounds)
    def change_plans(self, bounds: LedgerBounds) -> None:
        self.lowered |= bounds.fraction < self.bounds.fraction
        self.account.retune(bounds)
        self.bounds = bounds
        self.burst = max(self.burst, bounds.burst)

    @rule(
        cost=st.integers(1, 200),
        times=st.integers(1, 12),
        denied=st.one_of(st.none(), st.integers(0, 60)),
        spare=st.one_of(st.just(inf), st.floats(-0.1, 1)),
    )
    def ask(self, cost: int, times: int, denied: int | None, spare: float) -> None:
        for _ in range(times):
            before = self.account.spent
            verdict = grant(self.account, cost, self.now, floor=self.floor, denied=denied, spare=spare)
            assert self.account.spent - before == (cost if verdict <= BY_FLOOR else 0)
            may_pass = spare > 0 and self.account.fraction > 0
            if verdict <= BY_FLOOR:
                assert may_pass
                self.copies.append((self.now, verdict))
                self.spends.append(Spend(self.now, cost, self.account.fraction))
            elif may_pass:
                self.above_the_floor()
            if verdict == WITHIN:
                self.within(spare)
            if verdict == BY_FLOOR:
                self.few_by_the_floor()

    def within(self, spare: float) -> None:
        """(a) The horizon, (b) the same for the present budget alone, and (c) the peak."""
        spends = [each for each in self.spends if each.at > self.now - HORIZON_S]
        step_s = HORIZON_S / HORIZON_BUCKETS if self.lowered else 0.0
        earned = sum(
            each.amount * each.fraction for each in self.work if each.at >= self.now - HORIZON_S - step_s
        )
        assert sum(each.cost for each in spends) <= earned + self.bounds.burst + 1e-6
        work = sum(each.amount for each in self.work if each.at >= self.now - HORIZON_S)
        share = self.account.fraction
        own = sum(each.cost for each in spends if each.fraction <= share)
        assert own <= share * work + self.bounds.burst + 1e-6, (
            "no other budget, before or between, adds to it"
        )
        spent = sum(each.cost for each in self.spends if each.at > self.now - 10.0)
        work = sum(each.amount for each in self.work if each.refill and each.at >= self.now - 10.0)
        peak = min(self.bounds.peak, spare)
        assert spent <= self.bounds.peak_grace + (peak * work if work else 0) + 1e-6

    def above_the_floor(self) -> None:
        """(d) A denied copy is one too many in some stretch of time that ends with it."""
        assert not self.per_s or any(
            1 + sum(at >= opens for at, _ in self.copies)
            > self.per_s * (self.now - opens) + FLOOR_BURST - 1e-6
            for opens in [at for at, _ in self.copies]
        )

    def few_by_the_floor(self) -> None:
        for opens, _ in self.copies:
            passed = sum(at >= opens and verdict == BY_FLOOR for at, verdict in self.copies)
            assert passed <= self.per_s * (self.now - opens) + FLOOR_BURST + 1e-6


TestContract = Contract.TestCase
TestContract.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_dead_backend_gets_the_floor_and_what_was_earned_within_the_peak() -> None:
    terms = LedgerTerms()
    account, floor = Account(terms.service_bounds(0.05)), Floor(terms.floor_per_s)
    for tick in range(50 * 3600):  # an hour at 50 requests a second saves 9,000 requests' cost
        account.earn(REQUEST, tick / 50)
    assert account.left(3599.9) > 8_000 * REQUEST
    granted = {WITHIN: 0, BY_FLOOR: 0}
    late = 0
    for tick in range(100 * 600):  # then nothing is answered for ten minutes, and everything asks for a copy
        now = 3600 + tick / 100
        verdict = grant(account, REQUEST // 10, now, floor=floor)
        if verdict <= BY_FLOOR:
            granted[verdict] += 1
            late += tick >= 10 * 100
    assert granted[WITHIN] / 10 <= terms.peak(0.05) * 50 * 10, "what 10 s of work had earned within the peak"
    assert late <= terms.floor_per_s * 590 + 1, "after 10 s only the floor"
    assert granted[BY_FLOOR] <= terms.floor_per_s * 600 + FLOOR_BURST


def test_without_successes_a_stage_falls_silent_though_the_service_earns() -> None:
    terms = LedgerTerms(floor_per_s=0.0)
    account, floor = Account(terms.service_bounds(0.05)), Floor()
    stage = Account(terms.stage_bounds(Reissue(after_ms=10.0, fraction=0.02)))
    for tick in range(50 * 600):
        account.earn(REQUEST, tick / 50)
        stage.earn(CALL, tick / 50)
    granted = []
    for tick in range(50 * 60):
        now = 600 + tick / 50
        account.earn(REQUEST // 2, now)
        if grant(account, REQUEST // 100, now, floor=floor, stage=stage) <= BY_FLOOR:
            granted.append(now)
    assert len(granted) <= 0.5 * 500
    assert max(granted) < 610.5
    assert stage.denied[STAGE_PEAK] > 2000


def test_a_budget_saved_in_quiet_minutes_reaches_the_fault() -> None:
    """Ten minutes of nothing, then a fault of a minute in which a sixth of the requests want a copy."""
    terms = LedgerTerms()
    account, floor = Account(terms.service_bounds(0.05)), Floor(terms.floor_per_s)
    granted = 0
    for tick in range(50 * 660):
        now = tick / 50
        account.earn(REQUEST, now)
        if now >= 600 and tick % 6 == 0:
            granted += grant(account, REQUEST, now, floor=floor) <= BY_FLOOR
    assert granted >= 0.99 * 500
    assert account.worst is not None
    assert account.worst <= terms.peak(0.05)


def test_half_a_request_a_second_gets_its_copies() -> None:
    terms = LedgerTerms()
    account, floor = Account(terms.service_bounds(0.05)), Floor(terms.floor_per_s)
    for tick in range(1800):
        account.earn(REQUEST, 2.0 * tick)
        if tick % 10 == 0:
            assert grant(account, REQUEST // 2, 2.0 * tick, floor=floor) <= BY_FLOOR


def test_steady_load_gets_its_whole_budget() -> None:
    terms = LedgerTerms(floor_per_s=0.0)
    account = Account(terms.service_bounds(0.05))
    for tick in range(100_000):  # 1,000 s at 100 requests a second
        now = tick / 100
        account.earn(REQUEST, now)
        if not account.refusal(REQUEST // 10, now):
            account.spend(REQUEST // 10, now)
    assert account.spent == pytest.approx(0.05 * account.work, rel=0.002)
    assert account.horizon_share(1000.0) == pytest.approx(0.05, rel=0.002)


def test_the_clock_earns_nothing() -> None:
    account = Account(LedgerBounds(fraction=0.1, burst=10, peak=1.0))
    account.earn(100, 0.0)
    for _ in range(20):
        assert not account.refusal(1, 0.0)
        account.spend(1, 0.0)
    assert account.refusal(1, 0.0) == HORIZON
    assert all(account.refusal(1, float(second)) for second in range(0, 3500, 7))


def test_the_load_lowers_the_peak_and_at_last_denies_everything() -> None:
    floor = Floor()
    bounds = LedgerBounds(fraction=0.1, burst=1000, peak=0.4)
    for spare, most in ((inf, 400), (0.5, 400), (0.25, 250), (0.01, 10), (0.0, 0), (-1.0, 0)):
        account = Account(bounds)
        account.earn(1000, 0.0)
        granted = sum(grant(account, 1, 0.0, floor=floor, spare=spare) == WITHIN for _ in range(1000))
        assert granted == most
    assert account.denied[LOAD] == 1000
    assert grant(account, 1, 0.0, floor=Floor(3.0), spare=0.0) == LOAD, "not even the floor"


def test_without_a_budget_not_even_the_floor_grants() -> None:
    account = Account()
    account.earn(1000, 0.0)
    assert grant(account, 1, 0.0, floor=Floor(3.0)) == HORIZON


def test_denials_name_their_bound_and_charge_nobody() -> None:
    account, stage = Account(LedgerBounds(fraction=0.5, burst=10, peak=1.0)), Account()
    account.earn(100, 0.0)
    cases = (
        (LedgerBounds(fraction=0.1, burst=0, peak=1.0), STAGE_HORIZON),
        (LedgerBounds(fraction=0.1, burst=CALL, peak=0.0), STAGE_PEAK),
    )
    for bounds, verdict in cases:
        stage.retune(bounds)
        stage.earn(CALL, 0.0)
        assert grant(account, 1, 0.0, stage=stage) == verdict
        assert account.denied[verdict] == stage.denied[verdict] == 1
    assert grant(account, 61, 0.0) == HORIZON
    assert grant(account, 101, 0.0) == PEAK
    assert (account.spent, stage.spent) == (0, 0)
    assert sum(account.denied) == 4
    assert len(account.denied) == len(VERDICTS)


def test_the_floor_is_charged_too() -> None:
    account, floor = Account(LedgerBounds(fraction=0.1, burst=10, peak=1.0)), Floor(3.0)
    assert grant(account, 10, 0.0, floor=floor) == BY_FLOOR, "no work yet, so no peak"
    assert account.floor_spent == account.spent == 10
    account.earn(1000, 0.0)
    assert account.left(0.0) == 100
    for _ in range(5):
        assert grant(account, 60, 0.0, floor=floor) <= BY_FLOOR
    assert account.left(0.0) == -200
    assert grant(account, 1, 0.0, floor=floor) == HORIZON, "the floor is used up, and its debt comes first"
    account.earn(2000, 0.0)
    assert grant(account, 1, 0.0, floor=floor) == HORIZON
    account.earn(10, 0.0)
    assert grant(account, 1, 0.0, floor=floor) == WITHIN


@given(
    per_s=st.floats(0.1, 50),
    jumps=st.lists(st.one_of(st.floats(0, 1), st.floats(-1e5, 1e5)), max_size=60),
)
def test_the_floor_survives_jumps_of_the_clock(per_s: float, jumps: list[float]) -> None:
    floor, now = Floor(per_s), 1e6
    for jump in jumps:
        now += jump
        assert sum(floor.take(now) for _ in range(100)) <= FLOOR_BURST
        assert floor.take(now + 1.01 / per_s + 0.01), (
            "one copy is back after its interval, wherever the clock is"
        )


# Changes of plans.


def test_a_change_of_plans_buys_no_second_burst() -> None:
    small = LedgerBounds(fraction=0.1, burst=50, peak=1.0)
    account = Account(small)
    account.earn(1000, 0.0)
    for _ in range(150):
        assert not account.refusal(1, 0.0)
        account.spend(1, 0.0)
    for bounds in (small, LedgerBounds(), small, replace(small, horizon_s=900.0), small):
        account.retune(bounds)
        assert account.refusal(1, 0.0) == HORIZON
    account.retune(replace(small, fraction=0.2))
    assert account.refusal(1, 0.0) == HORIZON, "past work earned by the fraction of its time"
    account.earn(5, 0.0)
    assert account.left(0.0) == 1
    account.retune(LedgerBounds())
    account.earn(10_000, 0.0)
    account.retune(small)
    assert account.left(0.0) == 1, "work without a plan earns nothing"


@pytest.mark.parametrize("seed", range(6))
def test_what_a_larger_budget_left_is_not_spent_under_a_smaller_one(seed: int) -> None:
    """Plans in turns, as in a trial by blocks, with removals and restarts between."""
    rng = random.Random(seed)
    small, large = LedgerTerms(floor_per_s=0.0).service_bounds(0.01), LedgerTerms().service_bounds(0.5)
    account, now = Account(small), 1e5
    work = spent = 0
    for _ in range(200):
        bounds = rng.choice([small, small, large, LedgerBounds()])
        account.retune(bounds)
        if rng.random() < 0.1:
            history, age_s = account.history(), rng.uniform(0.0, 3.0)
            now += age_s
            account = Account(bounds)
            account.restore(history, now, age_s=age_s)
        for _ in range(rng.choice([1, 30, 300])):
            now += 0.016
            account.earn(REQUEST, now)
            work += REQUEST
            if rng.random() < 0.3 and not account.refusal(REQUEST // 4, now):
                account.spend(REQUEST // 4, now)
                spent += REQUEST // 4 if bounds is small else 0
    assert 0.5 * (0.01 * work) < spent <= 0.01 * work + small.burst


def test_a_smaller_budget_does_not_begin_in_debt_for_a_larger_one() -> None:
    small, large = (LedgerBounds(fraction=share, burst=5, peak=1.0) for share in (0.01, 0.5))
    account = Account(small)
    account.earn(1000, 0.0)
    account.retune(large)
    account.earn(1000, 0.0)
    account.spend(300, 0.0)
    account.retune(LedgerBounds())
    account.retune(small)
    assert account.left(0.0) == 5 + 10 + 10, "as if it had been in force all the time"
    assert account.earned == 510, "the sum of all earnings never falls"


@given(
    horizons=st.lists(st.floats(10, 1000), min_size=1, max_size=5),
    work=st.integers(0, 1000),
    cost=st.integers(0, 500),
)
def test_another_horizon_keeps_what_is_left(horizons: list[float], work: int, cost: int) -> None:
    bounds = LedgerBounds(fraction=0.5, burst=100, horizon_s=60.0)
    account = Account(bounds)
    account.earn(work, 7.0)
    account.spend(cost, 8.0)
    left = account.left(9.0)
    for horizon_s in horizons:
        account.retune(replace(bounds, horizon_s=horizon_s))
        assert account.left(9.0) == left
    account.retune(bounds)
    assert account.left(9.0 + 60.0 * (1 + 2 / HORIZON_BUCKETS)) == 100, "all is forgotten after one horizon"


# Clock and memory.


@given(
    jumps=st.lists(st.tuples(st.floats(-1e5, 1e5), st.integers(0, 500), st.integers(1, 100)), max_size=80),
    fraction=fractions,
    burst=st.integers(0, 300),
)
def test_jumps_of_the_clock_never_buy_more_than_work_and_bursts(
    jumps: list[tuple[float, int, int]], fraction: float, burst: int
) -> None:
    account = Account(LedgerBounds(fraction=fraction, burst=burst, horizon_s=3600.0))
    now, work, spent, bursts = 1e6, 0, 0, 1
    for jump, earned, cost in jumps:
        now += jump
        bursts += jump >= 3540  # a horizon later the burst is there again
        account.earn(earned, now)
        work += earned
        if not account.refusal(cost, now):
            account.spend(cost, now)
            spent += cost
        assert spent <= fraction * work + burst * bursts + 1e-6
        assert account.horizon_share(now) >= 0
        assert account.share_10s(now) >= 0


def test_memory_is_bounded() -> None:
    account = Account(LedgerBounds(fraction=0.5, burst=100, horizon_s=60.0))

    def size() -> int:
        return sum(
            sys.getsizeof(value)
            for value in (getattr(account, name) for name in Account.__slots__)
            if isinstance(value, list)
        )

    before = size()
    for tick in range(20_000):
        account.earn(5, tick * 0.37)
        if not account.refusal(2, tick * 0.37):
            account.spend(2, tick * 0.37)
    assert size() == before


def test_the_worst_ten_seconds_are_measured_once_there_were_ten_seconds_of_work() -> None:
    account = Account(LedgerBounds(fraction=1.0, burst=1000))
    for tick in range(40):
        account.earn(10, tick / 4)
        account.spend(2 if tick < 20 else 4, tick / 4)
        assert account.worst is None
    account.earn(0, 10.0)
    assert account.worst == pytest.approx(0.3)
    for tick in range(40, 80):
        account.earn(10, tick / 4)
        account.spend(4, tick / 4)
    account.earn(0, 100.0)
    assert account.worst == pytest.approx(0.4)
    assert account.share_10s(100.0) == 0.0


# What is kept for calls that were denied before.


def test_what_is_kept_of_the_burst_halves_with_every_denial() -> None:
    account, floor = Account(LedgerBounds(fraction=0.1, burst=160)), Floor()
    account.earn(10_000, 0.0, refill=True)
    account.spend(1000, 0.0)
    granted = [
        sum(grant(account, 10, 0.0, floor=floor, denied=n) == WITHIN for _ in range(20))
        for n in (0, 1, 2, 60)
    ]
    assert granted == [8, 4, 2, 2]


def test_an_untouched_burst_pays_whatever_fits_it() -> None:
    account = Account(LedgerBounds(fraction=0.001, burst=10))
    account.earn(900, 0.0)
    assert not account.refusal(10, 0.0, denied=0)
    assert account.refusal(11, 0.0, denied=0) == HORIZON


def test_of_the_peak_too_something_is_kept() -> None:
    account = Account(LedgerBounds(fraction=0.1, burst=1000, peak=0.4))
    account.earn(1000, 0.0)
    granted = []
    for denied in (0, 1, 2, 60):
        granted.append(0)
        while not account.refusal(1, 0.0, denied=denied):
            account.spend(1, 0.0)
            granted[-1] += 1
    assert granted == [350, 25, 12, 13]


# Late work, refunds, forced spends.


def test_where_everything_is_late_nothing_is_earned() -> None:
    account = Account(LedgerBounds(fraction=0.1, burst=10))
    for tick in range(10_000):
        account.earn_late(100, tick / 100)
        if not account.refusal(1, tick / 100):
            account.spend(1, tick / 100)
    assert account.spent == 0, "without prompt work there is no work to spend against"


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (2, 1.0), (4, 0.5), (10, 0.2)])
def test_prompt_work_vouches_for_as_much_late_work(every: int, share: float) -> None:
    account = Account(LedgerBounds(fraction=0.05, burst=20, peak=0.2))
    for tick in range(100_000):
        now = tick / 100
        (account.earn_late if tick % every else account.earn_prompt)(10, now)
        if not account.refusal(10, now):
            account.spend(10, now)
    assert account.spent == pytest.approx(share * 0.05 * account.work, rel=0.03)


@given(
    script=st.lists(
        st.tuples(
            st.one_of(st.floats(0, 0.5), st.floats(0, 30)),  # wait
            st.integers(0, 1000),  # work
            st.booleans(),  # whether it came in time
            st.integers(0, 200),  # amount to spend
            st.floats(0, 1),  # share of it that is given back
            st.floats(0, 90),  # after how long
        ),
        max_size=60,
    ),
    bounds=some_bounds,
)
def test_pledges_and_refunds_never_buy_more_than_work_and_burst(
    script: list[tuple[float, int, bool, int, float, float]], bounds: LedgerBounds
) -> None:
    account, now = Account(bounds), 5.0
    earned: list[tuple[float, int]] = []
    spent: list[Spend] = []
    refunds: list[tuple[float, Spend, int, int]] = []
    for wait, work, prompt, cost, back, later in script:
        now += wait
        for due in [each for each in refunds if each[0] <= now]:
            refunds.remove(due)
            account.earn(0, now)
            account.refund(due[2], due[3])
            due[1].cost -= due[2]
        (account.earn_prompt if prompt else account.earn_late)(work, now)
        earned.append((now, work))
        if cost and not account.refusal(cost, now):
            account.spend(cost, now)
            spent.append(Spend(now, cost))
            refunds.append((now + later, spent[-1], int(cost * back), account.head))
            inside = sum(each.cost for each in spent if each.at > now - HORIZON_S)
            # Pledges carry work from before the horizon into it: at most one burst's worth.
            work_inside = sum(each for at, each in earned if at >= now - HORIZON_S)
            assert inside <= bounds.fraction * work_inside + 2 * bounds.burst + 1e-6
    assert account.spent == sum(each.cost for each in spent)


def test_a_refund_is_of_the_time_of_its_spend() -> None:
    account = Account(LedgerBounds(fraction=0.5, burst=100, peak=0.5, horizon_s=60.0))
    account.earn(100, 0.0)
    account.spend(50, 0.0)
    then = account.head
    assert account.refusal(1, 0.0) == PEAK
    account.refund(50, then)
    assert not account.refusal(50, 0.0)
    account.earn(100, 30.0)
    account.spend(40, 30.0)
    account.refund(0, then)
    assert account.share_10s(30.0) == pytest.approx(0.4)
    account.earn(0, 200.0)
    account.refund(10, then)
    assert account.left(200.0) == 100, "what was forgotten is not given back a second time"


def test_forced_spends_are_a_debt_of_one_burst_at_most() -> None:
    account = Account(LedgerBounds(fraction=0.1, burst=100, peak=2.0))
    for tick in range(1000):
        account.earn(100, tick / 100)
        account.force(100, tick / 100)
    assert account.spent == 100_000
    assert account.left(10.0) == -100
    account.earn(2010, 10.0)
    assert account.refusal(100, 10.0) == WITHIN
    assert account.refusal(102, 10.0) == HORIZON
