"""Terms of the ledger, and the bounds of accounts that follow from them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.model.plan.accounts import CALL, REQUEST
from kwiken.model.plan.ledger_terms import (
    BURST_COPIES,
    MAX_PEAK_SHARE,
    MAX_STAGE_PEAK,
    STAGE_SLACK,
    UNSTATED_SHARE,
    LedgerTerms,
    only_prompt_earn,
    stage_share,
)
from kwiken.model.service.stage import Reissue


@pytest.mark.parametrize(
    ("budget", "peak"), [(0.0, 0.0), (0.005, 0.02), (0.05, 0.2), (0.1, 0.3), (0.2, 0.3), (0.5, 0.5)]
)
def test_the_peak_is_a_few_times_the_budget_and_never_much_of_the_work(budget: float, peak: float) -> None:
    assert LedgerTerms(peak_factor=4.0).peak(budget) == pytest.approx(peak)


@given(st.floats(0, 1), st.floats(1, 100))
def test_the_peak_is_between_the_budget_and_its_ceiling(budget: float, factor: float) -> None:
    peak = LedgerTerms(peak_factor=factor).peak(budget)
    assert budget <= peak <= max(budget, MAX_PEAK_SHARE)
    assert peak <= budget * factor * (1 + 1e-9)


def test_a_service_has_a_burst_of_fifty_requests_budgets() -> None:
    bounds = LedgerTerms().service_bounds(0.05)
    assert (bounds.fraction, bounds.burst, bounds.peak_grace) == (0.05, round(2.5 * REQUEST), 0)
    assert LedgerTerms().service_bounds(0.001, least_burst=REQUEST).burst == REQUEST
    assert LedgerTerms().service_bounds(0.0, least_burst=REQUEST).burst == 0, "no budget, no burst"


def test_a_whole_answer_may_be_lost_at_once() -> None:
    bounds = LedgerTerms(horizon_s=60.0).utility_bounds(0.001)
    assert (bounds.burst, bounds.peak_grace, bounds.horizon_s) == (REQUEST, REQUEST, 60.0)
    assert LedgerTerms().utility_bounds(0.0).peak_grace == 0


def test_a_stage_may_use_the_peak_of_its_service_whatever_was_planned_for_it() -> None:
    bounds = LedgerTerms().stage_bounds(Reissue(after_ms=10.0, fraction=0.001))
    assert (bounds.peak, bounds.burst) == (MAX_STAGE_PEAK, BURST_COPIES * CALL)
    assert LedgerTerms().stage_bounds(Reissue(after_ms=0.0, fraction=0.8)).peak == 1.5
    none = LedgerTerms().stage_bounds(None)
    assert (none.fraction, none.burst, none.peak) == (0.0, 0, 0.0)


def test_the_share_of_a_stage_pays_for_the_calls_that_do_not_earn() -> None:
    tail = Reissue(after_ms=1, fraction=0.2, probability=0.5)  # 40% of the calls come late and earn nothing
    assert only_prompt_earn(tail)
    assert stage_share(tail) == pytest.approx(0.2 * STAGE_SLACK / 0.6)
    most = Reissue(after_ms=1, fraction=0.6)
    assert not only_prompt_earn(most)
    assert stage_share(most) == pytest.approx(0.9), "there every success earns"
    assert stage_share(Reissue(after_ms=0, fraction=1.0)) == 1.0, "no more copies than calls"
    assert stage_share(None) == 0.0
    assert stage_share(Reissue(after_ms=1)) == pytest.approx(UNSTATED_SHARE * STAGE_SLACK)
