"""Cases of the field about advice: what is promised of copies, and what is named instead."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.apps.report.advice_words import advice_sentences
from kwiken.otel.fit.fit import fit_profile, fit_profiles
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import (
    Advice,
    FindCommonCause,
    LookIntoReplica,
    LookIntoRequests,
    RequestKind,
)
from tests.support.otel.field_data import field_file


def advised(name: str) -> Advice:
    profile = fit_profiles([field_file(name)]).profiles[0]
    kind = RequestKind(name="page", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
    return advise(profile, kind=kind)[0]


def test_the_case_of_big_tenants_names_the_attribute() -> None:
    found = advised("G14")
    assert not found.settings
    (step,) = (step for step in found.steps if isinstance(step, LookIntoRequests))
    assert step.attribute == "tenant.id"
    assert advice_sentences(found, None)[3].startswith("First look into the requests that tenant.id marks")


def test_the_case_of_one_pod_that_stalls_names_the_pod() -> None:
    found = advised("G16")
    step = found.steps[0]
    assert isinstance(step, LookIntoReplica)
    assert step.name == "inv-2"
    assert advice_sentences(found, None)[3].startswith("First look into inv-2")


def test_the_case_of_pods_that_stall_together_names_the_period() -> None:
    found = advised("G17")
    assert not found.settings
    step = found.steps[0]
    assert isinstance(step, FindCommonCause)
    assert step.period_s == pytest.approx(60, abs=3)
    assert "all replicas" in advice_sentences(found, None)[1].lower()


def test_the_case_of_a_clock_of_milliseconds_expects_no_more_of_a_larger_budget() -> None:
    profile = fit_profiles([field_file("G12")]).profiles[0]
    kind = RequestKind(name="page", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
    worth = advise(profile, budget=0.1, kind=kind)[0].worth
    p99_ms = [each.p99_ms for each in worth]
    assert p99_ms == sorted(p99_ms, reverse=True)
    cuts = {each.budget: each.cut for each in worth}
    assert cuts[0.05] == pytest.approx(0.62, abs=0.05)


def test_the_case_of_writes_by_grpc_copies_the_read_alone() -> None:
    profile = fit_profile([field_file("F06")])
    copyable = {stage.match.operation for stage in profile.stages if stage.reissuable}
    assert [name.rsplit("/", 1)[-1] for name in copyable] == ["GetCart"]
    assert np.isfinite(profile.latency_ms).all()
