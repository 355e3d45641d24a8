"""Replay of the ledger over requests in the order of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import BY_FLOOR, HORIZON, LOAD, PEAK, REQUEST, WITHIN, Account, Floor, grant
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.tail.simulation.kept_budgets import replay_ledger

requests = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(0, 3)), st.one_of(st.floats(0, 0.1), st.floats(0, 40))),
    max_size=150,
)
some_terms = st.builds(
    LedgerTerms,
    horizon_s=st.floats(10, 100),
    peak_factor=st.floats(1, 8),
    floor_per_s=st.sampled_from([0.0, 0.3, 3.0]),
)


@given(requests, st.floats(0.01, 0.5), some_terms)
def test_it_is_the_account_asked_request_by_request(
    given_requests: list[tuple[float, float]], budget: float, terms: LedgerTerms
) -> None:
    wanted = np.array([want for want, _ in given_requests])
    started = np.cumsum([gap for _, gap in given_requests])
    account, floor = Account(terms.service_bounds(budget)), Floor(terms.floor_per_s)
    expected = []
    for want, now in zip(wanted.tolist(), started.tolist(), strict=True):
        account.earn(REQUEST, now)
        cost = round(want * REQUEST)
        expected.append(grant(account, cost, now, floor=floor) if cost else WITHIN)
    found = replay_ledger(wanted, started, budget=budget, terms=terms)
    assert found.verdicts.tolist() == expected
    assert found.granted.tolist() == [verdict <= BY_FLOOR for verdict in expected]
    assert (found.account.spent, found.account.work) == (account.spent, account.work)
    assert found.account.denied == account.denied


@given(requests, st.floats(0.01, 0.5), st.floats(1, 8))
def test_granted_costs_keep_the_peak(
    given_requests: list[tuple[float, float]], budget: float, peak_factor: float
) -> None:
    wanted = np.array([want for want, _ in given_requests])
    started = np.cumsum([gap for _, gap in given_requests])
    terms = LedgerTerms(peak_factor=peak_factor, floor_per_s=0.0)
    paid = np.where(replay_ledger(wanted, started, budget=budget, terms=terms).granted, wanted, 0.0)
    for i, now in enumerate(started):
        window = (started > now - 10.0) & (np.arange(len(started)) <= i)
        if paid[i] > 0:
            assert paid[window].sum() <= terms.peak(budget) * window.sum() + 1e-6


def test_a_fault_is_paid_by_the_hour_and_not_by_its_ten_seconds() -> None:
    """An hour at 20 requests a second; in its last minute a third of them want a copy."""
    started = np.arange(20 * 3600) / 20
    wanted = np.where((started >= 3540) & (np.arange(len(started)) % 3 == 0), 0.5, 0.0)
    asked = int((wanted > 0).sum())
    strict = replay_ledger(wanted, started, budget=0.05, terms=LedgerTerms(peak_factor=1.0, floor_per_s=0.0))
    found = replay_ledger(wanted, started, budget=0.05, terms=LedgerTerms())
    assert (strict.verdicts == PEAK).sum() > 0.6 * asked
    assert found.granted.all()
    assert found.account.spent == round(asked * 0.5 * REQUEST)


def test_an_hour_of_faults_is_held_to_the_budget() -> None:
    started = np.arange(100 * 1800) / 100
    wanted = np.full(len(started), 0.2)
    found = replay_ledger(wanted, started, budget=0.05, terms=LedgerTerms())
    assert found.account.horizon_share(started[-1]) == pytest.approx(0.05, rel=0.01)
    assert (found.verdicts == HORIZON).sum() > 0.7 * len(started)


def test_the_load_leaves_no_room() -> None:
    started, wanted = np.arange(100.0), np.full(100, 0.1)
    room = np.where(started < 50, np.inf, 0.0)
    found = replay_ledger(wanted, started, budget=0.5, terms=LedgerTerms(), spare=room)
    assert found.granted[:50].all()
    assert (found.verdicts[50:] == LOAD).all()


def test_no_requests_and_no_copies() -> None:
    none = replay_ledger(np.zeros(0), np.zeros(0), budget=0.1, terms=LedgerTerms())
    assert none.granted.shape == (0,)
    assert replay_ledger(np.zeros(9), np.arange(9.0), budget=0.1, terms=LedgerTerms()).granted.all()


@pytest.mark.parametrize(
    ("wanted", "started", "pattern"),
    [
        (np.zeros(2), np.zeros(3), "one entry for each request"),
        (np.zeros(2), np.array([1.0, 0.0]), "started_s: must be ascending"),
        (np.zeros(2), np.array([0.0, np.nan]), "started_s: must be ascending"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(wanted: np.ndarray, started: np.ndarray, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        replay_ledger(wanted, started, budget=0.1, terms=LedgerTerms())
