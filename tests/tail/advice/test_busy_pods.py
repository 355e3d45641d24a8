"""Advice on a single busy pod: what to do first is said first and once, and is what cuts p99."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwiken.apps.report.advice_words import advice_sentences, further_steps, headline, step_words
from kwiken.otel.fit.fit import fit_profiles
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import AddReplica, Advice, Doubt, OutOfReach, RequestKind
from tests.support.otel.field import Trace, filed, requests
from tests.support.otel.promises.busy import SEEDS, busy

QUICK = 2  # recordings that are read each time; the others are for `--run-slow`


def advised(path: Path) -> Advice:
    profile = fit_profiles([path]).profiles[0]
    kind = RequestKind(name="page", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
    found, plan = advise(profile, budget=0.05, kind=kind)
    assert plan is None
    assert not found.settings
    return found


@pytest.mark.parametrize(
    "seed", [*SEEDS[:QUICK], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[QUICK:])]
)
def test_a_busy_pod_needs_a_second_one_before_all_else(seed: int, tmp_path: Path) -> None:
    case = busy(seed)
    found = advised(case.recording(tmp_path))
    assert AddReplica(stages=(f"{case.callee}:r{case.busy}",)) in found.steps
    told = advice_sentences(found, None)
    assert told[3] == f"First add a second replica of {case.callee}:r{case.busy}; no copies."
    assert headline(found) == f"door: first add a second replica of {case.callee}:r{case.busy}"
    whole = " ".join([*told, *map(step_words, further_steps(found))])
    assert whole.count("second replica") == 1, "the same fact is said once"
    if all(pods == 1 for pods in case.pods):
        assert (found.doubt, found.judgement) == (Doubt.ONE_REPLICA, None), "no figure without evidence"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_pod_cuts_what_is_waited_for(seed: int) -> None:
    case = busy(seed)
    assert case.p99_ms(2) < 0.8 * case.p99_ms(1)


def test_no_replica_is_asked_for_where_the_caller_makes_the_tail(tmp_path: Path) -> None:
    rng = np.random.default_rng(8601)

    def make(trace: Trace) -> None:
        took = 10.0 + (300.0 if rng.random() < 0.04 else 0.0)
        top = trace.span(None, "door", "GET /page", 0, took + 8, "server")
        client = trace.span(top, "door", "GET", 2, 6, "client")
        trace.span(client, "rows", "GET /rows", 2.1, 5.9, "server", k8s__pod__name="rows-0")

    found = advised(filed(tmp_path, requests(make, 400), "otlp"))
    assert not any(isinstance(step, AddReplica) for step in found.steps)
    assert OutOfReach(services=("door",)) in found.steps
    assert advice_sentences(found, None)[3].startswith("No copies: the calls that could get them do not make")
