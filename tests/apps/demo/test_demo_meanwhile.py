"""The plan's expectation for requests that ran without it while others ran with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwiken.apps.demo.trial.meanwhile import expect_meanwhile
from kwiken.model.plan.plan import Budgets
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.trace.load import read_forest
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import RequestRecord
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.otel.fit.test_fit_guesses import one


def write(folder: Path, requests: list[RequestRecord]) -> Path:
    observer = make_observer("shop", traces=folder)
    for request in requests:
        observer.request_finished(request)
    observer.close()
    return folder


@pytest.fixture
def requests() -> list[RequestRecord]:
    rng = np.random.default_rng(1)
    took = np.where(rng.random(600) < 0.03, 60.0, rng.uniform(2, 3, 600))
    return [one(i, {"a": (float(ms), 1.0)}) for i, ms in enumerate(took)]


def test_only_the_requests_without_a_plan_count(tmp_path: Path, requests: list[RequestRecord]) -> None:
    before = requests[::2]
    learned = fit_profile([write(tmp_path / "before", before)])
    study = study_plan(learned, PlanSettings(budgets=Budgets(reissue=0.05), created=""))
    slow = [one(i, {"a": (500.0, 1.0)}, lost=i % 4 == 1) for i in range(1, 600, 2)]
    traces = read_forest([write(tmp_path / "all", [*before, *slow])])
    found = expect_meanwhile(traces, before, learned, study.plan, seed=0)
    assert found is not None
    assert study.plan.expected is not None
    assert found.before == study.plan.expected.before
    assert found.after.p99_ms == pytest.approx(study.plan.expected.after.p99_ms, rel=0.05)
    assert found.after.p99_ms < 10 < found.before.p99_ms
    assert "p99_ms" not in found.bounds  # one replica cannot show that copies are independent


def test_few_requests_expect_nothing(tmp_path: Path, requests: list[RequestRecord]) -> None:
    learned = fit_profile([write(tmp_path, requests[:99])])
    study = study_plan(learned, PlanSettings(budgets=Budgets(reissue=0.05), created=""))
    assert expect_meanwhile(read_forest([tmp_path]), requests[:99], learned, study.plan, seed=0) is None
