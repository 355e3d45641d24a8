"""Request classes by an attribute of their spans or by root operation, and weights by age."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import OWN_TIME
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.read import columns
from kwiken.tail.curves.copy_correlation import copy_correlation
from tests.otel.fit.test_fit_foreign import many, replayed, short
from tests.support.otel.field import filed
from tests.support.otel.span_trees import MS, T0, Span, jaeger_json, otlp_lines, write


def spans_of(requests: int = 60) -> list[Span]:
    return many(lambda n: [("get", 1, 10 + n % 5), ("put", 20, 30)], requests)


def otlp_with(spans: list[Span], attributes: dict[tuple[int, int], list[dict[str, Any]]]) -> str:
    lines = []
    for line in otlp_lines(spans).splitlines():
        document = json.loads(line)
        for resource in document["resourceSpans"]:
            for span in resource["scopeSpans"][0]["spans"]:
                span["attributes"] += attributes.get((int(span["traceId"], 16), int(span["spanId"], 16)), [])
        lines.append(json.dumps(document))
    return "\n".join(lines)


def jaeger_with(spans: list[Span], tags: dict[tuple[int, int], list[dict[str, Any]]]) -> str:
    document = json.loads(jaeger_json(spans))
    for trace in document["data"]:
        for span in trace["spans"]:
            span["tags"] += tags.get((int(span["traceID"], 16), int(span["spanID"], 16)), [])
    return json.dumps(document)


def told(path: Path, kind_by: str = "tenant") -> dict[str, int]:
    profile = fit_profile([path], kind_by=kind_by)
    assert profile.classes is not None
    assert len(profile.classes) == profile.requests
    return {name: int((profile.classes == i).sum()) for i, name in enumerate(profile.class_names)}


@pytest.mark.parametrize("form", ["otlp", "jaeger"])
def test_an_attribute_separates_kinds_of_requests(form: str, tmp_path: Path) -> None:
    """On the request's own span, or on the first one below it that has it; the request's own wins."""
    otlp = form == "otlp"

    def attribute(value: object) -> dict[str, Any]:
        if not otlp:
            return {"key": "tenant", "type": "x", "value": value}
        key = {str: "stringValue", bool: "boolValue", int: "intValue"}[type(value)]
        return {"key": "tenant", "value": {key: str(value) if type(value) is int else value}}

    given = {(n, 1): [attribute("gold")] for n in range(1, 21)}
    given |= {(n, 2): [attribute("wrong")] for n in range(1, 5)}
    given |= {(n, 2): [attribute("silver")] for n in range(21, 31)}
    given |= {(n, 3): [attribute("wrong")] for n in range(25, 28)}
    given |= {(n, 1): [attribute(7)] for n in range(31, 36)}
    spans = spans_of()
    text = otlp_with(spans, given) if otlp else jaeger_with(spans, given)
    assert told(write(tmp_path / "a.json", text)) == {"(none)": 25, "gold": 20, "silver": 10, "7": 5}


def test_a_value_that_reads_like_no_value_is_none(tmp_path: Path) -> None:
    """Else two kinds would have one name, and a profile with such kinds cannot be read back."""
    values = {n: "(none)" if n < 11 else "gold" for n in range(1, 41)}
    given = {(n, 1): [{"key": "tenant", "value": {"stringValue": value}}] for n, value in values.items()}
    assert told(write(tmp_path / "a.json", otlp_with(spans_of(), given))) == {"(none)": 30, "gold": 30}


def test_kinds_stand_by_their_requests(tmp_path: Path) -> None:
    slow = {(n, 1): [{"key": "size", "value": {"stringValue": f"s{n % 5}"}}] for n in range(1, 61)}
    profile = fit_profile([write(tmp_path / "a.json", otlp_with(spans_of(), slow))], kind_by="size")
    assert profile.classes is not None
    names = np.array(profile.class_names)[profile.classes]
    np.testing.assert_array_equal(names, [f"s{round(took - 9)}" for took in profile.stages[1].latency_ms])


def test_many_kinds_are_cut_to_the_most_frequent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = {
        (n, 1): [{"key": "user", "value": {"stringValue": f"u{max(0, n - 30):02d}"}}] for n in range(1, 61)
    }
    path = write(tmp_path / "a.json", otlp_with(spans_of(), each))
    found = told(path, "user")
    assert list(found)[:2] == ["u00", "u01"]
    assert list(found)[-1] == "(other)"
    assert (found["u00"], found["(other)"], len(found)) == (30, 11, 21)
    monkeypatch.setattr(columns, "MAX_KINDS", 5)
    assert told(path, "user") == {"u00": 30, "u01": 1, "u02": 1, "u03": 1, "(other)": 27}


def test_root_operations_as_kinds_share_one_profile(tmp_path: Path) -> None:
    buys, looks = spans_of(60), many(lambda n: [("get", 1, 10), ("rank", 20, 30)], 40)
    others = many(lambda n: [("get", 1, 10), ("rank", 20, 30)], 10)
    for i, (spans, service) in enumerate(((looks, "shop"), (others, "site")), 1):
        for span in spans:
            span.trace += i * 10_000
            if not span.parent:
                span.name, span.service = "look", service
    path = write(tmp_path / "a.jsonl", otlp_lines([*buys, *looks, *others]))
    profile = fit_profile([path], kind_by="root")
    assert profile.stages[0].name == f"shop:buy{OWN_TIME}"
    assert profile.class_names == ("shop:buy", "shop:look")
    assert (profile.requests, profile.counts["requests_of_other_kinds"]) == (100, 10)
    assert {short(s.name): s.visit_share for s in profile.stages[1:]} == pytest.approx(
        {"get": 1.0, "put": 0.6, "rank": 0.4}
    )
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)


def test_old_requests_fade_with_their_kinds(tmp_path: Path) -> None:
    half = {
        (n, 1): [{"key": "age", "value": {"stringValue": "old" if n < 31 else "new"}}] for n in range(1, 61)
    }
    path = write(tmp_path / "a.json", otlp_with(spans_of(), half))
    profile = fit_profile([path], kind_by="age", half_life_s=15.0)
    assert profile.classes is not None
    assert profile.class_names[0] == "new"
    kinds = np.bincount(profile.classes).tolist()
    assert profile.counts["requests_decayed"] == 60 - sum(kinds)
    assert kinds[0] == pytest.approx(15 / np.log(2) * 0.75, abs=1.5)
    assert kinds[1] == pytest.approx(kinds[0] / 4, abs=1.5)
    with pytest.raises(InputError, match="half-life"):
        fit_profile([path], half_life_s=0.0)


def test_kinds_say_what_copies_would_take(tmp_path: Path) -> None:
    """Every third request is a large one, late at `get`; `put` is late for nobody's sake."""
    took = np.random.default_rng(1).uniform(1, 40, 601).tolist()
    spans = many(
        lambda n: [("get", 1, 30 + n % 7 if n % 3 == 0 else 5 + n % 4), ("put", 50, 50 + took[n])], 600
    )
    size = {
        (n, 1): [{"key": "size", "value": {"stringValue": "large" if n % 3 == 0 else "small"}}]
        for n in range(1, 601)
    }
    path = write(tmp_path / "a.json", otlp_with(spans, size))
    stages = fit_profile([path], kind_by="size").stages[1:]
    rho = {short(s.name): copy_correlation(s, EmpiricalDistribution.of(s.calls_ms)).rho for s in stages}
    assert rho["get"] > 0.4
    assert rho["put"] < 0.2
    assert all(s.guesses_ms is None for s in fit_profile([path]).stages)


@pytest.mark.parametrize("form", ["otlp", "jaeger", "zipkin"])
@pytest.mark.parametrize("cause", ["request", "pod"])
def test_attributes_of_the_callees_spans_tell_slow_requests_and_not_slow_pods(
    form: str, cause: str, tmp_path: Path
) -> None:
    """One value of an attribute that only one pod states, as the name of a thread, is not the request's."""
    rng = np.random.default_rng(5)
    spans: list[Span] = []
    for n in range(1, 601):
        pod, export = int(rng.integers(3)), bool(rng.random() < 0.06)
        slow = export if cause == "request" else pod == 1 and rng.random() < 0.15
        start, took = T0 + 40 * n * MS, int((10 + 90 * slow + rng.random()) * MS)
        said = {"k8s.pod.name": f"pod-{pod}", "app.export": export, "worker": f"w{3 * pod + n % 3}"}
        ends = start + MS, start + MS + took
        spans += [
            Span(n, 1, 0, "web", "GET /p", start, ends[1] + MS, kind="server"),
            Span(n, 2, 1, "web", "GET", *ends, kind="client"),
            Span(
                n, 3, 2, "rows", "GET /rows", ends[0] + 1000, ends[1] - 1000, kind="server", attributes=said
            ),
        ]
    stages = fit_profile([filed(tmp_path, spans, form)]).stages
    known = next(stage.dependence for stage in stages if stage.match.service == "rows")
    assert known is not None
    if cause == "request":
        assert (known.attribute, known.replica) == ("app.export", "")
        assert [each.lower() for each in known.values] == ["true"]
        assert min(band.low for band in known.bands) > 0.8
    else:
        assert (known.attribute, known.replica) == ("", "pod-1")
