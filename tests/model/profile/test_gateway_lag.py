"""Time that answers lay at a busy gateway: its estimate, and what copies, curves and replays make of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from kwiken.apps.console.notes import note_sentences
from kwiken.cli.study.explain import command as explain_command
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.copy_estimates import gateway_lag, unread_shares
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.notes import AnswersUnread
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.common_random_numbers import PairedSimulation
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
MS = 1_000_000


def read_and_served(lag_ms: np.ndarray, replica: np.ndarray, clock_ms: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ends of calls by the caller's clock and by clocks of replicas that are ahead by so much."""
    arrived = 10**18 + np.arange(len(lag_ms)) * 5 * MS
    served = arrived + (clock_ms[replica] * MS).astype(np.int64)
    return arrived + (lag_ms * MS).astype(np.int64) + MS // 2, served


@given(st.integers(0, 2**32), st.lists(st.floats(-1e7, 1e7), min_size=3, max_size=3))
def test_clocks_of_replicas_do_not_matter(seed: int, ahead: list[float]) -> None:
    rng = np.random.default_rng(seed)
    lag, replica = rng.exponential(2, 150), rng.integers(0, 3, 150)
    for each in range(3):
        lag[np.argmax(replica == each)] = 0.0
    read, served = read_and_served(lag, replica, np.array(ahead))
    np.testing.assert_allclose(gateway_lag(read, served, replica), lag, atol=2e-6)


def test_a_clock_that_is_set_spoils_few_calls() -> None:
    lag = np.where(np.arange(1000) % 2, 3.0, 0.0)
    read, served = read_and_served(lag, np.zeros(1000, np.int64), np.zeros(1))
    served[500:] += 40 * MS
    wrong = np.abs(gateway_lag(read, served, np.zeros(1000, np.int64)) - lag) > 1e-3
    assert not wrong[:400].any()
    assert not wrong[600:].any()


def test_packets_sent_again_are_no_lag_of_the_gateway() -> None:
    read, served = read_and_served(np.array([0.0, 99.0, 205.0]), np.zeros(3, np.int64), np.zeros(1))
    np.testing.assert_allclose(gateway_lag(read, served, np.zeros(3, np.int64)), [0, 99, 0])
    assert not len(gateway_lag(read[:0], served[:0], np.zeros(0, np.int64)))


@pytest.fixture
def seen(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """Two stages with the same latencies: at one replicas are late, at the other the gateway is."""
    slow = np.where(np.random.default_rng(1).random(2000) < 0.02, 40.0, 0.0)
    calls = np.random.default_rng(2).uniform(1, 2, 2000)
    return profile_of(
        stage_of("replicas", np.roll(calls + slow, 1000)),
        replace(stage_of("gateway", calls + slow, after=("replicas",)), lag_ms=slow[:, None]),
    )


def test_copies_are_bought_where_replicas_are_late(seen: Profile) -> None:
    study = study_plan(seen, PlanSettings(budgets=Budgets(reissue=0.05), created="", insurance=0.0))
    assert study.curves["gateway"].variance[0] < 0.1 < study.curves["replicas"].variance[0]
    assert study.plan.expected is not None
    simulation = study.simulation
    late = np.flatnonzero(seen.stage("gateway").lag_ms[:, 0] > 0)  # type: ignore[index] # given above
    assert study.plan.expected.before.p99_ms > 40
    # No copy shortens what the gateway itself adds, so these requests stay slow.
    assert (np.sort(simulation.after_ms)[-len(late) :] > 40).all()
    other = part_of(seen, np.setdiff1d(np.arange(2000), late))
    later = study_plan(other, PlanSettings(budgets=Budgets(reissue=0.05), created="")).plan.expected
    assert later is not None
    assert later.after.p99_ms < 10
    [note] = of_kind(study.notes, AnswersUnread)
    assert list(note.shares) == ["gateway"]
    assert note.shares["gateway"] > 0.9
    assert "gateway 9" in note_sentences([note])[0]


def test_the_share_that_no_copy_shortens_counts_late_calls_only(seen: Profile) -> None:
    assert set(unread_shares(seen)) == {"gateway"}
    prompt = np.where(seen.stage("gateway").calls_ms < 40, 0.9, 0.0)
    other = replace(seen, stages=tuple(replace(stage, lag_ms=prompt) for stage in seen.stages))
    assert unread_shares(other) == {}


def test_explain_names_the_stages_whose_answers_lay_unread(seen: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(seen))
    shown = CliRunner().invoke(explain_command, [str(file)])
    assert shown.exit_code == 0
    [line] = [line for line in shown.stderr.splitlines() if "lay unread" in line]
    assert "gateway 9" in line
    assert "replicas" not in line
    found = json.loads(CliRunner().invoke(explain_command, [str(file), "--json"]).stdout)
    shares = {stage["name"]: stage["unread"] for stage in found["stages"]}
    assert shares["replicas"] == 0
    assert shares["gateway"] > 0.9


def test_a_search_over_pairs_keeps_the_lag(seen: Profile) -> None:
    rows = np.arange(2000)
    paired = PairedSimulation(seen, stage_curves(seen), rows)
    alone = paired.set_choices({})
    np.testing.assert_allclose(alone, seen.latency_ms)
    lag = seen.stage("gateway").lag_ms
    assert lag is not None
    copied = paired.with_choices({"gateway": (1.0, 1.0), "replicas": (1.0, 1.0)})
    assert (copied[lag[:, 0] > 0] >= 40).all()
    assert (copied <= alone).all()
