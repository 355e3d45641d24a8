"""Requests that the samplers of others kept: each stands for as many as the stated probability says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.model.profile.weighting import KEPT_OF_SAMPLED, SLOW_CHOSEN
from kwiken.otel.fit.fit import fit_profile, list_kinds
from kwiken.otel.read.sampling import share_of_attributes, share_of_state
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import MS, T0, Span, by_trace, jaeger_trace, otlp_line, write, zipkin_span

SHARE = 0.05
SLOW_MS = 100.0


def kept(*, slow: float = 0.03, all_of: int = 6000) -> tuple[list[Span], np.ndarray[Any, Any]]:
    """Requests that a tail sampler kept: all slow ones, and one in twenty others. Latencies of all."""
    rng, spans, latencies = random.Random(11), list[Span](), []
    for trace in range(1, all_of + 1):
        call = rng.uniform(97, 140) if rng.random() < slow else rng.uniform(9, 11)
        latencies.append(call + 4)
        if latencies[-1] < SLOW_MS and rng.random() >= SHARE:
            continue
        start, end, top = T0 + trace * 50 * MS, T0 + trace * 50 * MS + int((call + 4) * MS), len(spans) + 1
        spans += [
            Span(trace, top, 0, "front", "GET /home", start, end),
            Span(trace, top + 1, top, "front", "GET", start + MS, end - 3 * MS),
            Span(trace, top + 2, top + 1, "back", "GET /items", start + 2 * MS, end - 4 * MS),
        ]
    return spans, np.array(latencies)


def is_slow(trace: list[Span]) -> bool:
    return trace[0].end - trace[0].start >= SLOW_MS * MS


def in_otlp(trace: list[Span], state: str | None, attributes: dict[str, Any], roots: bool) -> str:
    document = json.loads(otlp_line(trace))
    for part in document["resourceSpans"]:
        for span in part["scopeSpans"][0]["spans"]:
            if roots and "parentSpanId" in span:
                continue
            if state is not None:
                span["traceState"] = state
            kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
            span["attributes"] += [{"key": k, "value": {kinds[type(v)]: v}} for k, v in attributes.items()]
    return json.dumps(document)


def in_jaeger(trace: list[Span], attributes: dict[str, Any]) -> str:
    document = jaeger_trace(trace)
    document["spans"][0]["tags"] += [{"key": k, "type": "x", "value": v} for k, v in attributes.items()]
    return json.dumps(document)


def in_zipkin(trace: list[Span], attributes: dict[str, Any]) -> str:
    spans = [zipkin_span(span) for span in trace]
    spans[0]["tags"] |= {key: str(value) for key, value in attributes.items()}
    return json.dumps(spans)


FORMS: dict[str, Callable[[list[Span], bool], str]] = {
    "thresholds": lambda t, slow: in_otlp(t, "ot=th:0" if slow else "ot=th:f333333333333", {}, roots=False),
    "thresholds among others": lambda t, slow: in_otlp(
        t, f"a=b,ot=rv:12345678901234;th:{'0' if slow else 'f3333333333333'}", {}, roots=True
    ),
    "only the others state one": lambda t, slow: in_otlp(
        t, None if slow else "ot=th:f333333333333", {}, roots=True
    ),
    "an inner span states one": lambda t, slow: (
        in_otlp(t[1:], "ot=th:0" if slow else "ot=th:f333333333333", {}, roots=False)[:-2]
        + ","
        + in_otlp(t[:1], None, {}, roots=True).removeprefix('{"resourceSpans": [')
    ),
    "Jaeger's sampler": lambda t, slow: in_jaeger(
        t, {"sampler.type": "probabilistic", "sampler.param": 1.0 if slow else SHARE}
    ),
    "Jaeger's tag of a tracestate": lambda t, slow: in_jaeger(
        t, {"w3c.tracestate": "ot=th:0" if slow else "ot=th:f333333333333"}
    ),
    "Datadog's rates": lambda t, slow: in_otlp(
        t, None, {"_dd.rule_psr": 1.0 if slow else 0.1, "_dd.limit_psr": 1.0 if slow else 0.5}, roots=True
    ),
    "Datadog's agent": lambda t, slow: in_jaeger(t, {"_dd.agent_psr": "1" if slow else str(SHARE)}),
    "Honeycomb's rate": lambda t, slow: in_otlp(t, None, {"SampleRate": 1 if slow else 20}, roots=False),
    "Honeycomb's rate as text": lambda t, slow: in_jaeger(t, {"SampleRate": "1" if slow else "20"}),
    "Zipkin's tags": lambda t, slow: in_zipkin(t, {"SampleRate": 1 if slow else 20}),
}


def fit(path: Path, spans: list[Span], form: str) -> Profile:
    lines = [FORMS[form](trace, is_slow(trace)) for trace in by_trace(spans)]
    return fit_profile([write(path / "a.jsonl", "\n".join(lines) + "\n")])


@pytest.mark.parametrize("form", FORMS)
def test_requests_weigh_by_the_inverse_of_their_probability(form: str, tmp_path: Path) -> None:
    spans, latencies = kept()
    profile = fit(tmp_path, spans, form)
    assert profile.requests == pytest.approx(6000, rel=0.1)
    assert profile.counts[KEPT_OF_SAMPLED] == len(by_trace(spans))
    assert (profile.latency_ms >= SLOW_MS).mean() == pytest.approx((latencies >= SLOW_MS).mean(), rel=0.1)
    np.testing.assert_allclose(
        np.percentile(profile.latency_ms, (50, 90, 99)), np.percentile(latencies, (50, 90, 99)), rtol=0.03
    )
    assert SLOW_CHOSEN not in profile.counts
    (kind,) = list_kinds([tmp_path / "a.jsonl"]).kinds
    assert kind.requests == len(by_trace(spans))
    assert (kind.p50_ms, kind.p99_ms) == pytest.approx(tuple(np.percentile(profile.latency_ms, (50, 99))))


def test_equal_probabilities_weigh_nothing(tmp_path: Path) -> None:
    spans, _ = kept()
    path = write(
        tmp_path / "a.jsonl", "\n".join(in_otlp(t, "ot=th:c", {}, roots=True) for t in by_trace(spans))
    )
    profile = fit_profile([path])
    assert profile.requests == len(by_trace(spans))
    assert KEPT_OF_SAMPLED not in profile.counts


def test_requests_of_which_nothing_says_how_they_were_chosen_get_a_warning(tmp_path: Path) -> None:
    spans, _ = kept()
    path = write(tmp_path / "a.jsonl", "".join(f"{otlp_line(trace)}\n" for trace in by_trace(spans)))
    profile = fit_profile([path])
    assert profile.counts[SLOW_CHOSEN] == sum(map(is_slow, by_trace(spans)))


@pytest.mark.parametrize("name", ["F01_ref", "F03", "F05", "F07", "F08", "F09", "F18", "F33"])
def test_cases_in_which_nothing_was_chosen_get_none(name: str) -> None:
    assert SLOW_CHOSEN not in fit_profile([field_file(name)]).counts


@pytest.mark.parametrize("seed", range(5))
def test_tails_of_usual_services_get_no_warning(seed: int, tmp_path: Path) -> None:
    rng, spans = random.Random(seed), list[Span]()
    for trace in range(1, 801):
        took = int(rng.lognormvariate(3, 1.2) * MS) + 5 * MS
        start, top = T0 + trace * 1000 * MS, 2 * trace
        spans += [
            Span(trace, top, 0, "front", "GET /home", start, start + took),
            Span(trace, top + 1, top, "back", "GET /items", start + MS, start + took - MS),
        ]
    path = write(tmp_path / "a.jsonl", "".join(f"{otlp_line(trace)}\n" for trace in by_trace(spans)))
    assert SLOW_CHOSEN not in fit_profile([path]).counts


@pytest.mark.parametrize(
    ("state", "share"),
    [
        ("ot=th:0", 1.0),
        ("ot=th:8", 0.5),
        ("ot=th:c", 0.25),
        ("a=1, ot=rv:ffffffffffffff;th:fd70a3d70a3d7 ,b=2", 0.01),
        ("ot=p:3;r:5", 0.125),
        ("ot=p:63", None),
        ("ot=rv:ffffffffffffff", None),
        ("other=th:8", None),
        ("ot=th:xyz", None),
        ("ot=th:", None),
        ("", None),
    ],
)
def test_states_of_traces(state: str, share: float | None) -> None:
    assert share_of_state(state) == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    "attributes",
    [
        {"sampler.type": "const", "sampler.param": 0.5},
        {"sampler.type": "ratelimiting", "sampler.param": 0.5},
        {"sampler.type": "probabilistic", "sampler.param": 0},
        {"sampler.type": "probabilistic", "sampler.param": "half"},
        {"sampler.type": "probabilistic", "sampler.param": True},
        {"SampleRate": 0},
        {"SampleRate": -5},
        {"SampleRate": [1]},
        {"_dd.agent_psr": 2.0},
        {"_dd.agent_psr": "nan"},
        {},
    ],
)
def test_attributes_that_state_no_probability(attributes: dict[str, Any]) -> None:
    assert share_of_attributes(attributes) is None


def test_the_case_of_a_tail_sampler() -> None:
    profile = fit_profile([field_file("F12")])
    assert np.percentile(profile.latency_ms, (50, 90, 99)) == pytest.approx((14.0, 15.0, 123.3), rel=0.01)
    assert (profile.latency_ms >= SLOW_MS).mean() == pytest.approx(0.021, abs=0.0005)
