"""The ledger: accounts of request, stage and service together, late requests, lost utility, and retries."""

from __future__ import annotations

from math import inf

from hypothesis import given, strategies as st

from kwiken.model.plan.accounts import CALL, OWN_COST, REQUEST, Account, Floor, LedgerBounds
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RequestBudget, RetryAccount

amounts = st.integers(0, 30)
RICH = LedgerBounds(fraction=1.0, burst=1000 * CALL, peak=1.0)


def account_of(bounds: LedgerBounds, work: int = 10**12) -> Account:
    """An account that has earned by so much work at time 0."""
    account = Account(bounds)
    account.earn(work, 0.0)
    return account


@given(
    budget=amounts,
    stage=amounts,
    service=amounts,
    per_s=st.sampled_from([0.0, 3.0]),
    asks=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 20), st.sampled_from([inf, 0.3, 0.0])), max_size=60
    ),
)
def test_a_copy_is_charged_at_every_level_or_at_none(
    budget: int, stage: int, service: int, per_s: float, asks: list[tuple[int, int, float]]
) -> None:
    outer = Account(LedgerBounds(fraction=1.0, burst=service, peak=1.0))
    inner = Account(LedgerBounds(fraction=1.0, burst=stage * CALL, peak=1.0))
    ledger, own = Ledger(outer, floor=Floor(per_s)), RequestBudget(budget)
    now = 0.0
    for cost, work, spare in asks:
        now += 0.1
        outer.earn(work, now)
        inner.earn(work * CALL, now)
        before = (own.left, inner.spent, outer.spent)
        denied = work % 4
        fits = (
            own.left >= cost
            and spare > 0
            and not inner.refusal(CALL, now, denied=denied)
            and not outer.refusal(cost, now, denied=denied, spare=spare)
        )
        granted = ledger.charge(own, inner, cost, now, denied=denied, spare=spare)
        assert granted >= fits
        assert granted == fits or (per_s > 0 and spare > 0 and own.left >= 0)
        paid = (before[0] - own.left, inner.spent - before[1], outer.spent - before[2])
        assert paid == ((cost, CALL, cost) if granted else (0, 0, 0))
        assert own.left >= 0
    assert inner.denied == outer.denied


def test_a_request_at_most_doubles_its_own_cost_and_the_floor_does_not_help() -> None:
    outer, inner, own = account_of(RICH), account_of(RICH), RequestBudget(10)
    ledger = Ledger(outer, floor=Floor(3.0))
    assert sum(ledger.charge(own, inner, 4, 0.0) for _ in range(10)) == 2
    assert outer.denied[OWN_COST] == inner.denied[OWN_COST] == 8


def test_the_floor_is_for_reissues_only() -> None:
    poor = LedgerBounds(fraction=0.1, burst=0, peak=0.0)
    ledger = Ledger(Account(poor), catch_up=Account(poor), floor=Floor(3.0))
    inner, own = account_of(RICH), RequestBudget(1000)
    assert not ledger.charge_late(own, 1, 0.0)
    assert [ledger.charge(own, inner, 1, 0.0) for _ in range(8)] == [True] * 6 + [False] * 2
    assert (ledger.service.floor_spent, ledger.catch_up.spent) == (6, 0)


# Catch-up.


@given(
    budget=amounts,
    held=amounts,
    asks=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40), st.booleans()), max_size=60),
)
def test_late_copies_and_threads_are_charged_to_request_and_catch_up_and_to_nobody_else(
    budget: int, held: int, asks: list[tuple[int, int, bool]]
) -> None:
    late = Account(LedgerBounds(fraction=1.0, burst=held, peak=2.0))
    ledger, own = Ledger(account_of(RICH), catch_up=late), RequestBudget(budget)
    now = 0.0
    paid = 0
    for cost, real, threads in asks:
        now += 0.3
        late.earn_prompt(15, now)
        fits = own.left >= cost and not late.refusal(cost, now)
        if threads:
            hold = ledger.hold(own, cost, now)
            assert (hold is not None) is fits
            if hold is not None:
                ledger.settle(own, hold, real, now)
                paid += real
        else:
            assert ledger.charge_late(own, cost, now) is fits
            paid += cost if fits else 0
        assert (late.spent, own.left) == (paid, budget - paid)
    assert ledger.service.spent == 0


# Utility.


def utility_ledger(bounds: LedgerBounds) -> Ledger:
    return Ledger(utility=Account(bounds))


@given(
    script=st.lists(
        st.tuples(st.floats(0, 15), st.integers(0, 100), st.integers(0, 1000), st.booleans()), max_size=80
    ),
    budget=st.floats(0.001, 1.0),
)
def test_chosen_losses_keep_the_budget_over_the_horizon_and_the_peak_over_ten_seconds(
    script: list[tuple[float, int, int, bool]], budget: float
) -> None:
    terms = LedgerTerms(horizon_s=60.0)
    bounds = terms.utility_bounds(budget)
    ledger = utility_ledger(bounds)
    now = 0.0
    earned: list[tuple[float, int]] = []
    chosen: list[tuple[float, int]] = []
    lost = 0
    for wait, answers, thousandths, forced in script:
        now += wait
        loss = thousandths * REQUEST // 1000
        ledger.utility.earn(REQUEST * answers, now)
        earned.append((now, REQUEST * answers))
        granted = ledger.lose(loss, now, forced=forced)
        assert granted or not forced
        lost += loss if granted else 0
        if granted and not forced:
            chosen.append((now, loss))
            for length_s, share, more in (
                (60.0, budget, bounds.burst),
                (10.0, terms.peak(budget), bounds.peak_grace),
            ):
                work = sum(each for at, each in earned if at >= now - length_s)
                assert sum(each for at, each in chosen if at > now - length_s) <= share * work + more + 1000
    assert ledger.utility.spent == lost


def test_what_nobody_chose_to_lose_is_earned_back_first() -> None:
    ledger = utility_ledger(LedgerBounds(fraction=0.1, burst=100, peak=1.0))
    ledger.utility.earn(1000, 0.0)
    assert ledger.lose(350, 0.0, forced=True)
    assert not ledger.lose(1, 0.0, forced=False)
    ledger.utility.earn(900, 1.0)
    assert not ledger.lose(1, 1.0, forced=False), "the debt is one burst"
    ledger.utility.earn(200, 1.0)
    assert ledger.lose(10, 1.0, forced=False)


def test_a_quiet_service_may_lose_a_whole_answer_at_once() -> None:
    """Ten seconds of one request a second at 0.1% would never pay for one shard of eight."""
    ledger = utility_ledger(LedgerTerms().utility_bounds(0.001))
    ledger.utility.earn(REQUEST, 0.0)
    assert ledger.lose(REQUEST, 0.0, forced=False)
    assert not ledger.lose(REQUEST // 8, 0.0, forced=False)


# Retries.


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
    assert sum(account.charge() for _ in range(burst + 2)) <= burst
