"""The wall clock of a running service jumps: accounts, leadership and what is learned from stay right."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.plan_revision import FIRST
from kwiken.runtime.gateway.control.siblings import NO_SIBLINGS
from kwiken.runtime.gateway.control.steering import AUTOPILOT, PERSON
from kwiken.runtime.gateway.steering.learning import learn
from kwiken.runtime.gateway.steering.lease import Lease
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.services.single import service

HOUR_S = 3600.0
TERMS = LedgerTerms()
JUMPS = {"ahead": HOUR_S, "back": -2 * HOUR_S, "a day ahead": 24 * HOUR_S, "none": 0.0}


def exchange_of(file: Path) -> tuple[Exchange, Ledger]:
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    ledger = executor.ledger
    ledger.retune(
        TERMS.service_bounds(0.05),
        TERMS.service_bounds(0.0),
        TERMS.service_bounds(0.0),
        floor_per_s=3.0,
        now=time.monotonic(),
    )
    budget = SharedBudget(ledger, "gateway", time.monotonic(), least=1, first=True)
    return Exchange(PlanInForce(executor, "gateway"), NO_SIBLINGS, budget, ledger, file), ledger


@pytest.mark.parametrize("jump", JUMPS)
def test_what_was_spent_counts_at_a_restart_whatever_the_clock_did(
    jump: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, ledger = exchange_of(tmp_path / "accounts")
    ledger.service.earn(1_000_000, time.monotonic())
    ledger.service.force(40_000, time.monotonic())
    exchange.save(last=True)
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + JUMPS[jump])
    exchange, restored = exchange_of(tmp_path / "accounts")
    exchange.restore()
    assert restored.service.work == 1_000_000
    share = ledger.service.horizon_share(time.monotonic())
    assert share == pytest.approx(0.04, rel=0.01)
    assert restored.service.horizon_share(time.monotonic()) == pytest.approx(share)


def test_what_was_spent_before_the_machine_was_restarted_ages_by_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, ledger = exchange_of(tmp_path / "accounts")
    ledger.service.earn(1_000_000, time.monotonic())
    ledger.service.force(40_000, time.monotonic())
    exchange.save(last=True)
    now_s, up_s = time.time() + 2 * HOUR_S, time.monotonic()
    monkeypatch.setattr(time, "time", lambda: now_s)
    monkeypatch.setattr(time, "monotonic", lambda: up_s - HOUR_S)
    exchange, restored = exchange_of(tmp_path / "accounts")
    exchange.restore()
    assert restored.service.horizon_share(time.monotonic()) == 0.0


def test_traces_of_before_the_clock_was_set_back_are_not_learned_from(tmp_path: Path) -> None:
    """Files in the future would keep the newest ones out, and be learned from until the clock is there."""
    now_s = time.time()
    for number in range(20):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("no trace")
        os.utime(file, (now_s, now_s))
    for jump_s in (-2 * HOUR_S, 24 * HOUR_S):
        with pytest.raises(InputError, match="no trace of the last quarter"):
            learn(str(tmp_path), "single", None, budget=0.05, now_s=now_s + jump_s, rate_per_s=1.0)
    with pytest.raises(InputError, match=r"\.jsonl"):  # these are read
        learn(str(tmp_path), "single", None, budget=0.05, now_s=now_s, rate_per_s=1.0)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((0.5, 3.0, 9.0, *JUMPS.values()))), max_size=40))
def test_one_process_leads_at_a_time_and_lease_numbers_rise_under_jumps(
    steps: list[tuple[int, float]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        leases = [Lease(Path(folder) / "a.lease", f"process {number}") for number in range(3)]
        now_s, last, epochs = 1e9, -1, [0]
        for number, step_s in steps:
            now_s += step_s
            if leases[number].hold(now_s):
                # A leader that was replaced steps down at its next look; gateways refuse its lower number.
                assert leases[number].epoch > epochs[-1] or number == last
                last = number
                epochs.append(leases[number].epoch)
        assert epochs == sorted(epochs)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from((1, 60_000, *(int(1e3 * s) for s in JUMPS.values())))))
)
def test_the_last_act_of_a_person_wins_under_jumps(acts: list[tuple[bool, int]]) -> None:
    revision, now_ms = FIRST, 1_700_000_000_000
    for by_person, step_ms in acts:
        now_ms += step_ms
        later = revision.after(PERSON if by_person else AUTOPILOT, "gateway", now_ms)
        assert later > revision
        revision = later
