"""Calls whose client's and server's spans share one id, as Zipkin's tracers write them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import (
    FORMS,
    Trace,
    blamed,
    excess_ms,
    filed,
    requests,
    with_shared_ids,
    without_kinds,
)
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import Span


def medians(profile: Profile) -> dict[str, float]:
    """Median by service of its own time and of the links to its callees, milliseconds."""
    assert profile.service_ms is not None
    found = dict(zip(profile.service_names, np.median(profile.service_ms, axis=0).tolist(), strict=True))
    if profile.link_ms is not None:
        for (caller, _), between in zip(profile.link_names, np.median(profile.link_ms, axis=0), strict=True):
            found[caller] += float(between)
    return found


@pytest.mark.parametrize("name", ["F01_zipkin_shared_ids_otlp", "F01_reference_unique_ids"])
def test_shared_and_unique_ids_give_the_same_profile(name: str) -> None:
    profile = fit_profile([field_file(name)])
    assert [stage.name for stage in profile.stages] == ["front (own time)", "mid:mid"]
    assert "spans_duplicate" not in profile.counts
    assert medians(profile) == pytest.approx({"leaf": 1.6, "mid": 12.4, "front": 4.0})
    assert excess_ms(profile)["leaf"] == pytest.approx(18.0)
    assert blamed(profile) == "leaf"


def chain(trace: Trace, *, depth: int, share: int) -> None:
    """A chain of services, each with work of its own, in the last of which the tail is."""
    tail = 40.0 if trace.number % 25 == 0 else 2.0
    above = trace.span(None, "s0", "GET /s0", 0, 10.0 * depth + tail, "server")
    for level in range(1, depth + 1):
        if level == depth and trace.number % share:
            return
        start, end = 3.0 * level, 10.0 * depth + tail - 3.0 * level
        _, above = trace.call(above, "GET", f"s{level}", f"GET /s{level}", start, end)
        trace.span(above, f"s{level}", "work", start + 1, start + 2, "internal")


def same(one: Profile, other: Profile) -> None:
    assert [stage.name for stage in one.stages] == [stage.name for stage in other.stages]
    assert one.service_names == other.service_names
    assert one.service_ms is not None
    assert other.service_ms is not None
    np.testing.assert_allclose(one.service_ms, other.service_ms)
    for mine, theirs in zip(one.stages, other.stages, strict=True):
        np.testing.assert_allclose(mine.calls_ms, theirs.calls_ms)
        assert mine.reissuable == theirs.reissuable


def both(tmp_path: Path, spans: list[Span], form: str, *, bare: bool = False, depth: int = 1) -> Profile:
    """Profile of spans with shared ids in any order, which is that of spans with unique ids."""
    shared = with_shared_ids(spans)
    if bare:
        spans, shared = without_kinds(spans), without_kinds(shared)
    random.Random(2).shuffle(shared)
    (tmp_path / "unique").mkdir()
    unique = fit_profile([filed(tmp_path / "unique", spans, form)], depth=depth)
    profile = fit_profile([filed(tmp_path, shared, form)], depth=depth)
    same(profile, unique)
    assert "spans_duplicate" not in profile.counts
    return profile


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("depth", "share"), [(2, 1), (4, 1), (3, 5)])
@pytest.mark.parametrize("bare", [False, True], ids=["kinds", "no kinds"])
def test_chains_of_any_depth(form: str, depth: int, share: int, bare: bool, tmp_path: Path) -> None:
    spans = requests(lambda trace: chain(trace, depth=depth, share=share))
    profile = both(tmp_path, spans, form, bare=bare, depth=2)
    if share == 1:
        assert medians(profile)[f"s{depth}"] > 0


def test_fan_outs_and_clocks_that_differ(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "GET /all", 0, 60, "server")
        for shard in range(3):
            _, server = trace.call(root, "GET", "shard", "GET /part", 2 + shard, 30 + shard)
            trace.call(server, "GET", "store", "GET /key", 5 + shard, 25 + trace.rng.random())
        for span in trace.spans:
            if span.service == "store":
                span.start, span.end = span.start - 10**9, span.end - 10**9

    profile = both(tmp_path, requests(make), "jaeger")
    assert profile.stages[1].calls_ms.shape[1] == 3
    assert profile.counts["spans_shifted"] == 1200


def test_in_a_part_of_the_requests_one_side_is_missing(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        chain(trace, depth=2, share=1)
        if trace.number % 4 == 0:
            trace.spans = [span for span in trace.spans if (span.service, span.kind) != ("s2", "server")]

    profile = fit_profile([filed(tmp_path, with_shared_ids(requests(make)), "otlp")])
    assert [stage.name for stage in profile.stages] == ["s0 (own time)", "s1:s1"]
    assert profile.stages[1].visit_share == 1.0


def test_the_same_span_from_two_collectors_is_one(tmp_path: Path) -> None:
    spans = with_shared_ids(requests(lambda trace: chain(trace, depth=2, share=1)))
    profile = fit_profile([filed(tmp_path, [*spans, *spans], "otlp")])
    assert profile.counts["spans_duplicate"] == len(spans)
    same(profile, fit_profile([filed(tmp_path, spans, "jaeger")]))
