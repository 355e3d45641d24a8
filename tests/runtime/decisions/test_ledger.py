"""Ledger: bounds of every account over any window, refunds, clock jumps and changes of plan."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwiken.runtime.decisions import CALL, Account, Ledger, RequestBudget
from kwiken.runtime.decisions.ledger import BUCKETS, MILLION, WINDOW_S, RetryAccount

STEP = WINDOW_S / BUCKETS


@dataclass
class Event:
    wait: float
    work: int
    cost: int  # amount to spend after the work; 0 for none


events = st.lists(
    st.builds(
        Event,
        wait=st.one_of(st.just(0.0), st.floats(0, 0.5), st.floats(0, 15)),
        work=st.one_of(st.just(0), st.integers(0, 1000)),
        cost=st.one_of(st.just(0), st.integers(1, 200)),
    ),
    max_size=120,
)
fractions = st.one_of(st.just(0.0), st.floats(0.001, 1.0), st.just(1.0))


def play(
    account: Account, script: list[Event], start: float = 5.0
) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    """Run events; returns (time, work) and (time, spend)."""
    now = start
    earned, spent = [], []
    for event in script:
        now += event.wait
        if event.work:
            account.earn(event.work, now)
            earned.append((now, event.work))
        if event.cost and account.allows(event.cost, now):
            account.spend(event.cost)
            spent.append((now, event.cost))
    return earned, spent


@given(script=events, fraction=fractions, burst=st.integers(0, 500), starts=st.floats(0, 1e6))
def test_spend_of_any_window_is_a_share_of_its_work_and_one_burst(
    script: list[Event], fraction: float, burst: int, starts: float
) -> None:
    account = Account(fraction, burst)
    earned, spent = play(account, script, starts)
    for opens, _ in spent:  # a window that maximises spend opens with one
        closes = opens + WINDOW_S
        spend = sum(cost for at, cost in spent if opens <= at <= closes)
        # Work of the opening moment counts: earning and spending at the same moment are in one window.
        work = sum(each for at, each in earned if opens <= at <= closes)
        assert spend <= fraction * work + burst + 1e-9


@given(script=events, fraction=fractions, burst=st.integers(0, 500))
def test_each_spend_fits_the_ten_seconds_before_it(script: list[Event], fraction: float, burst: int) -> None:
    account = Account(fraction, burst)
    earned, spent = play(account, script)
    for now, _ in spent:
        spend = sum(cost for at, cost in spent if now - WINDOW_S < at <= now)
        work = sum(each for at, each in earned if now - WINDOW_S <= at <= now)
        assert spend <= fraction * work + 1e-9


@given(
    work=st.integers(0, 10**6),
    fraction=fractions,
    burst=st.integers(0, 500),
    times=st.lists(st.floats(0, 100)),
)
def test_without_successes_spend_stops_after_the_burst(
    work: int, fraction: float, burst: int, times: list[float]
) -> None:
    account = Account(fraction, burst)
    account.earn(work, 0.0)
    spent = 0
    for now in sorted(times):
        while account.allows(7, now):
            account.spend(7)
            spent += 7
    assert spent <= burst


def test_the_clock_refills_nothing() -> None:
    account = Account(0.1, 10)
    account.earn(1000, 0.0)
    while account.allows(1, 0.0):
        account.spend(1)
    assert account.level == 0
    assert not any(account.allows(1, float(hour) * 3600) for hour in range(100))


def test_steady_load_gets_its_whole_fraction() -> None:
    account = Account(0.05, 20)
    spent = 0
    for tick in range(100_000):  # 1000 s at 100 calls a second
        now = tick / 100
        account.earn(10, now)
        if account.allows(10, now):
            account.spend(10)
            spent += 10
    assert spent == pytest.approx(0.05 * 1_000_000, rel=0.03)
    assert account.worst is not None
    assert 0.045 <= account.worst <= 0.05


def test_success_that_does_not_refill_still_counts_as_work() -> None:
    account = Account(0.5, 10)
    account.earn(100, 0.0, refill=False)
    assert account.level == 10
    for _ in range(10):
        assert account.allows(1, 0.0)
        account.spend(1)
    assert not account.allows(1, 0.0)
    account.earn(2, 0.0)
    assert account.allows(1, 0.0)


@given(
    jumps=st.lists(st.tuples(st.floats(-1e5, 1e5), st.integers(0, 500), st.integers(1, 100)), max_size=80),
    fraction=fractions,
    burst=st.integers(0, 300),
)
def test_clock_jumps_never_buy_more_than_work_and_burst(
    jumps: list[tuple[float, int, int]], fraction: float, burst: int
) -> None:
    account = Account(fraction, burst)
    now, work, spent = 1e6, 0, 0
    for jump, earned, cost in jumps:
        now += jump
        account.earn(earned, now)
        work += earned
        if account.allows(cost, now):
            account.spend(cost)
            spent += cost
        assert spent <= fraction * work + burst + 1e-9
        assert account._work_window >= 0
        assert account._spent_window >= 0


def test_after_a_clock_jump_back_the_window_goes_on() -> None:
    account = Account(0.5, 100)
    account.earn(1000, 1e6)
    account.earn(0, 10.0)
    for _ in range(100):
        account.spend(1) if account.allows(1, 10.0) else None
    assert account.spent == 100
    account.earn(1000, 10.0 + 2 * WINDOW_S)  # what happened before has left the window
    assert account._spent_window == 0
    assert account._work_window == 1000


def test_memory_is_bounded() -> None:
    account = Account(0.5, 100)
    before = sys.getsizeof(account._work_in) + sys.getsizeof(account._spent_in)
    for tick in range(50_000):
        account.earn(5, tick * 0.37)
        if account.allows(2, tick * 0.37):
            account.spend(2)
    assert sys.getsizeof(account._work_in) + sys.getsizeof(account._spent_in) == before
    assert len(account._work_in) == BUCKETS + 1


@given(script=events, fraction=st.floats(0.01, 1), burst=st.integers(1, 300))
def test_worst_window_is_the_worst_of_the_full_ones(script: list[Event], fraction: float, burst: int) -> None:
    account = Account(fraction, burst)
    earned, spent = play(account, script)
    end = max([at for at, _ in earned + spent], default=0.0)
    account.earn(0, end + 2 * WINDOW_S)
    worst = None
    first: int | None = None
    last = -(10**9)
    for head in sorted({int(at / STEP) for at, _ in earned}):
        # Busy since: no window without any work in between.
        first = head if first is None or head - last >= BUCKETS else first
        last = head
        if head - first < BUCKETS - 1:
            continue
        inside = range(head - BUCKETS + 1, head + 1)
        work = sum(each for at, each in earned if int(at / STEP) in inside)
        spend = sum(each for at, each in spent if int(at / STEP) in inside)
        worst = max(worst or 0.0, spend / work)
    assert account.worst == pytest.approx(worst)


def test_new_budget_keeps_what_was_spent() -> None:
    account = Account(0.1, 50)
    account.earn(1000, 0.0)
    for _ in range(50):
        assert account.allows(1, 0.0)
        account.spend(1)
    account.retune(0.1, 50)
    assert not account.allows(1, 0.0), "the same budget again is no second burst"
    account.retune(0.2, 80)
    assert account.level == 0
    account.retune(0.0, 0)
    account.earn(10_000, 0.0)
    assert not account.allows(1, 0.0), "no budget, no spend"
    account.retune(0.1, 50)
    assert account.level == 0, "a plan after none is no second burst either"
    account.earn(100, 0.0)
    account.retune(0.0, 0)
    account.earn(100, 0.0)
    account.retune(0.1, 50)
    assert account.level == 10, "it finds what the last one left"
    account.spend(10)
    account.earn(100, 0.0)
    assert account.level == 10


amounts = st.integers(0, 30)


@given(
    budget=amounts,
    stage=amounts,
    service=amounts,
    asks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60),
)
def test_a_copy_is_charged_at_every_level_or_at_none(
    budget: int, stage: int, service: int, asks: list[tuple[int, int]]
) -> None:
    outer, inner = Account(1.0, service), Account(1.0, stage * CALL)
    ledger, own = Ledger(outer), RequestBudget(budget)
    now = 0.0
    for cost, work in asks:
        now += 0.1
        outer.earn(work, now)
        inner.earn(work * CALL, now)
        before = (own.left, inner.spent, outer.spent)
        denied = work % 4
        fits = (
            own.left >= cost
            and inner.allows(CALL, now, denied=denied)
            and outer.allows(cost, now, denied=denied)
        )
        assert ledger.charge(own, inner, cost, now, denied=denied) is fits
        paid = (before[0] - own.left, inner.spent - before[1], outer.spent - before[2])
        assert paid == ((cost, CALL, cost) if fits else (0, 0, 0))
        assert own.left >= 0
    assert inner.denied == outer.denied


# Catch-up.


@given(
    script=st.lists(
        st.tuples(
            st.one_of(st.floats(0, 0.5), st.floats(0, 15)),  # wait
            st.integers(0, 1000),  # work
            st.booleans(),  # whether it came in time
            st.integers(0, 200),  # amount to spend
            st.floats(0, 1),  # share of it that is given back
            st.floats(0, 12),  # after how long
        ),
        max_size=80,
    ),
    fraction=fractions,
    burst=st.integers(0, 500),
)
def test_pledges_and_refunds_never_buy_more_than_work_and_burst(
    script: list[tuple[float, int, bool, int, float, float]], fraction: float, burst: int
) -> None:
    account = Account(fraction, burst)
    now = 5.0
    earned: list[tuple[float, int]] = []
    spent: list[tuple[float, int]] = []
    refunds: list[tuple[float, int, int, int]] = []
    for wait, work, prompt, cost, back, later in script:
        now += wait
        for due in sorted(each for each in refunds if each[0] <= now):
            refunds.remove(due)
            _, place, amount, head = due
            account.earn(0, now)
            account.refund(amount, head)
            spent[place] = (spent[place][0], spent[place][1] - amount)
        (account.earn_prompt if prompt else account.earn_late)(work, now)
        earned.append((now, work))
        if cost and account.allows(cost, now):
            account.spend(cost)
            refunds.append((now + later, len(spent), int(cost * back), account.head))
            spent.append((now, cost))
        assert account._level >= 0
        assert 0 <= account._pledged <= account._full - account._level
        assert account._spent_window == sum(account._spent_in) >= 0
    assert account.spent == sum(cost for _, cost in spent)
    for opens, _ in spent:
        inside = [cost for at, cost in spent if opens <= at <= opens + WINDOW_S]
        work = sum(each for at, each in earned if opens <= at <= opens + WINDOW_S)
        assert sum(inside) <= fraction * work + burst + 1e-9


def test_where_everything_is_late_nothing_is_earned() -> None:
    account = Account(0.1, 10)
    spent = 0
    for tick in range(10_000):
        account.earn_late(100, tick / 100)
        if account.allows(1, tick / 100):
            account.spend(1)
            spent += 1
    assert spent == 10


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (2, 1.0), (4, 0.5), (10, 0.2)])
def test_prompt_work_vouches_for_as_much_late_work(every: int, share: float) -> None:
    account = Account(0.05, 20)
    spent = 0
    for tick in range(100_000):
        now = tick / 100
        (account.earn_late if tick % every else account.earn_prompt)(10, now)
        if account.allows(10, now):
            account.spend(10)
            spent += 10
    assert spent == pytest.approx(share * 0.05 * 1_000_000, rel=0.03)


@given(
    budget=amounts,
    held=amounts,
    asks=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40), st.booleans()), max_size=60),
)
def test_late_copies_and_threads_are_charged_to_the_request_and_catch_up_only(
    budget: int, held: int, asks: list[tuple[int, int, bool]]
) -> None:
    ledger, own = Ledger(Account(1.0, 1000), catch_up=Account(1.0, held)), RequestBudget(budget)
    now = 0.0
    paid = 0
    for cost, real, threads in asks:
        now += 0.3
        ledger.catch_up.earn_prompt(15, now)
        fits = own.left >= cost and ledger.catch_up.allows(cost, now)
        if threads:
            hold = ledger.hold(own, cost, now)
            assert (hold is not None) is fits
            if hold is not None:
                ledger.settle(own, hold, real, now)
                paid += real
        else:
            assert ledger.charge_late(own, cost, now) is fits
            paid += cost if fits else 0
        assert (ledger.catch_up.spent, own.left) == (paid, budget - paid)
    assert ledger.service.spent == 0


# Utility.


@given(
    script=st.lists(
        st.tuples(st.floats(0, 15), st.integers(0, 100), st.integers(0, 1000), st.booleans()), max_size=80
    ),
    fraction=fractions,
    burst=st.integers(0, 1000),
)
def test_chosen_losses_stay_within_budget_and_burst_over_any_stretch_of_time(
    script: list[tuple[float, int, int, bool]], fraction: float, burst: int
) -> None:
    ledger = Ledger(utility=Account(fraction, burst, grace=True))
    now = 0.0
    earned: list[tuple[float, int]] = []
    chosen: list[tuple[float, int]] = []
    lost = 0
    for wait, answers, loss, forced in script:
        now += wait
        ledger.utility.earn(100 * answers, now)
        earned.append((now, 100 * answers))
        granted = ledger.lose(loss, now, forced=forced)
        assert granted or not forced
        lost += loss if granted else 0
        if granted and not forced:
            chosen.append((now, loss))
    assert ledger.utility.spent == lost
    for first in range(len(chosen)):
        for last in range(first, len(chosen)):
            work = sum(each for at, each in earned if chosen[first][0] <= at <= chosen[last][0])
            assert sum(each for _, each in chosen[first : last + 1]) <= fraction * work + burst + 1e-9


def test_unplanned_utility_loss_is_earned_back_first() -> None:
    ledger = Ledger(utility=Account(0.1, 100, grace=True))
    ledger.utility.earn(1000, 0.0)
    assert ledger.lose(150, 0.0, forced=True)
    assert not ledger.lose(1, 0.0, forced=False)
    ledger.utility.earn(500, 1.0)
    assert not ledger.lose(1, 1.0, forced=False)
    ledger.utility.earn(100, 1.0)
    assert ledger.lose(10, 1.0, forced=False)


def test_a_long_fault_is_not_held_against_the_answers_for_ever() -> None:
    ledger = Ledger(utility=Account(0.1, 100, grace=True))
    for tick in range(1000):
        ledger.utility.earn(100, tick / 100)
        ledger.lose(100, tick / 100, forced=True)
    assert ledger.utility.level == -100
    ledger.utility.earn(2000, 30.0)
    assert ledger.lose(100, 30.0, forced=False)


def test_a_service_at_low_load_may_lose_a_whole_answer_at_once() -> None:
    """Ten seconds of one request a second at 0.1% would never pay for one shard of eight."""
    account = Account(0.001, 1000, grace=True)
    account.earn(1000, 0.0)
    assert account.allows(125, 0.0)


def test_share_of_the_last_ten_seconds() -> None:
    account = Account(0.5, 1000)
    assert account.share_10s(0.0) == 0.0
    account.earn(1000, 0.0)
    account.spend(100)
    assert account.share_10s(0.0) == pytest.approx(0.1)
    assert account.share_10s(30.0) == 0.0


def test_a_request_at_most_doubles_its_own_cost() -> None:
    outer, inner = Account(1.0, 1000), Account(1.0, 1000 * CALL)
    outer.earn(10**6, 0.0)
    inner.earn(10**6 * CALL, 0.0)
    own = RequestBudget(10)
    granted = sum(Ledger(outer).charge(own, inner, 4, 0.0, denied=60) for _ in range(10))
    assert granted == 2


def test_what_is_kept_halves_with_every_denial() -> None:
    outer, inner = Account(0.1, 160), Account(1.0, 1000 * CALL)
    outer.earn(10**6, 0.0)
    inner.earn(10**6 * CALL, 0.0)
    ledger, own = Ledger(outer), RequestBudget(1000)
    granted = [sum(ledger.charge(own, inner, 10, 0.0, denied=n) for _ in range(20)) for n in (0, 1, 2, 60)]
    assert granted == [8, 4, 2, 2]


def test_a_full_account_pays_any_cost_within_its_burst() -> None:
    account = Account(1.0, 10)
    account.earn(1000, 0.0)
    assert account.allows(10, 0.0, denied=0)
    assert not account.allows(11, 0.0, denied=0)


def test_a_stage_with_few_calls_gets_its_planned_copies_when_they_first_ask() -> None:
    """Its window's whole budget, 8 copies, is less than half of the burst, which must not count there too."""
    account = Account(0.03, 16 * CALL)
    asked = granted = 0
    for call in range(27 * 120):
        now = call / 27
        if call % 50 == 49:
            asked += 1
            if account.allows(CALL, now, denied=0):
                account.spend(CALL)
                granted += 1
        else:
            account.earn(CALL, now)
    assert granted >= asked - 1, "the first window is still empty"


def test_a_part_of_the_window_is_reserved_for_calls_denied_before() -> None:
    account = Account(0.1, 1000 * CALL)
    account.earn(100 * CALL, 0.0)  # pays for ten within the window
    granted = []
    for denied in (0, 1, 2, 60):
        granted.append(0)
        while account.allows(CALL, 0.0, denied=denied):
            account.spend(CALL)
            granted[-1] += 1
    assert granted == [8, 1, 0, 1]


@given(outcomes=st.lists(st.booleans(), max_size=300), share=st.floats(0, 1), burst=st.integers(0, 10))
def test_retries_are_a_share_of_the_successes_and_one_burst(
    outcomes: list[bool], share: float, burst: int
) -> None:
    account = RetryAccount(share, burst)
    history: list[int] = []
    for success in outcomes:
        if success:
            account.earn()
        history.append(0 if success else int(account.charge()))
    for start in range(len(history)):
        successes = sum(outcomes[start:])
        assert sum(history[start:]) <= share * successes + burst + 1e-6
    assert account.spent == sum(history)
    assert account._level <= burst * MILLION
