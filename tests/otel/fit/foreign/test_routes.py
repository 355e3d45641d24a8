"""Routes from what spans state, before their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kwiken.otel.fit.fit import fit_profile, fit_profiles, list_kinds
from tests.support.otel.field import FORMS, Trace, filed, requests
from tests.support.otel.field_data import field_file

Stated = dict[str, Any]
ROUTES: dict[str, tuple[str, Stated, Stated]] = {
    "http.route": (
        "GET",
        {"http__route": "/report", "http__request__method": "GET"},
        {"http__route": "/item/{id}", "http__request__method": "GET"},
    ),
    "url.template": ("HTTP GET", {"url__template": "/report"}, {"url__template": "/item/{id}"}),
    "http.target": ("GET", {"http__target": "/report?day=1"}, {"http__target": "/item/%s?x=2"}),
    "url.path": ("request", {"url__path": "/report"}, {"url__path": "/item/0f8fad5b-d9cb-469f-a165-70867728950e"}),
    "http.path": ("get", {"http__path": "/report"}, {"http__path": "/item/%s"}),
    "uri": ("http-request", {"uri": "/report?day=1"}, {"uri": "/item/%s.json;jsessionid=A%s"}),
    "of a proxy": ("ingress", {"http__url": "http://web/report"}, {"http__url": "http://web/item/a%s@b.example"}),
    "http.url": ("/*", {"http__url": "http://web/report"}, {"http__url": "http://web/item/%s"}),
    "rpc.method": (
        "grpc",
        {"rpc__service": "shop.Web", "rpc__method": "report"},
        {"rpc__service": "shop.Web", "rpc__method": "item"},
    ),
    "graphql": (
        "POST /graphql",
        {"http__route": "/graphql", "graphql__operation__type": "query", "graphql__operation__name": "report"},
        {"http__route": "/graphql", "graphql__operation__type": "query", "graphql__operation__name": "item"},
    ),
    "destination": (
        "process",
        {"messaging__destination__name": "report", "messaging__operation": "process"},
        {"messaging__destination__name": "item", "messaging__operation": "process"},
    ),
}  # fmt: skip


def attributes(trace: Trace, kind: str) -> tuple[bool, dict[str, Any]]:
    """Whether a request is a report, a third of them, and what its span states."""
    report = trace.number % 3 == 0
    _, of_report, of_item = ROUTES[kind]
    stated = of_report if report else of_item
    return report, {
        key: value.replace("%s", str(trace.number + 10)) if isinstance(value, str) else value
        for key, value in stated.items()
    }


def test_roots_named_by_their_method_are_of_two_kinds() -> None:
    found = list_kinds([field_file("F07_root_GET_http_route")])
    assert [(kind.label, kind.requests) for kind in found.kinds] == [
        ("web:GET /item/{id}", 400),
        ("web:GET /report", 200),
    ]
    assert [kind.p99_ms for kind in found.kinds] == [pytest.approx(27, abs=0.05), pytest.approx(80)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ROUTES)
def test_roots_are_told_apart_by_what_they_state(form: str, kind: str, tmp_path: Path) -> None:
    name = ROUTES[kind][0]

    def make(trace: Trace) -> None:
        report, stated = attributes(trace, kind)
        took = 60 if report else 6
        root = trace.span(None, "web", name, 0, took + 20, "server", **stated)
        trace.call(root, "GET", "store", "GET /rows", 1, 1 + took)

    found = fit_profiles([filed(tmp_path, requests(make, 390), form)], every=True)
    assert [each.requests for each in found.kinds] == [260, 130]
    assert [each.p99_ms for each in found.kinds] == [pytest.approx(26), pytest.approx(80)]
    assert "item" in found.kinds[0].label
    assert "report" in found.kinds[1].label


@pytest.mark.parametrize("kind", [kind for kind in ROUTES if kind != "destination"])
@pytest.mark.parametrize("deep", [False, True])
def test_callees_are_told_apart_by_what_they_state(kind: str, deep: bool, tmp_path: Path) -> None:
    name, report, item = ROUTES[kind]
    pair = (report, item)

    def make(trace: Trace) -> None:
        above = trace.span(None, "front", "GET /page", 0, 90, "server")
        if deep:
            _, above = trace.call(above, "GET", "mid", "GET /mid", 1, 89)
        for place in (0, 1):
            stated = {
                key: value.replace("%s", str(trace.number + 10)) if isinstance(value, str) else value
                for key, value in pair[place].items()
            }
            client = trace.span(above, above.service, "GET", 2 + 60 * place, 60 + 20 * place, "client")
            trace.span(client, "web", name, 3 + 60 * place, 59 + 20 * place, "server", **stated)

    profile = fit_profile([filed(tmp_path, requests(make, 120), "jaeger")])
    assert len(profile.stages) == 3
    names = [stage.name for stage in profile.stages[1:]]
    assert "report" in names[0]
    assert "item" in names[1]
    assert [stage.visit_share for stage in profile.stages] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "GET ", "get ", "HTTP GET ", "http://web"])
def test_identifiers_in_paths_that_are_names_are_folded(form: str, before: str, tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        path = "/report" if trace.number % 3 == 0 else f"/item/{trace.number}?x={trace.number}"
        root = trace.span(None, "web", before + path, 0, 40, "server")
        trace.call(root, "GET", "store", f"{before}/rows/{trace.number}/all", 1, 16)

    found = fit_profiles([filed(tmp_path, requests(make, 300), form)], every=True)
    # The stable conventions have `GET /item/{id}`; Zipkin writes all names in lower case.
    before = "GET " if before == "HTTP GET " or (form == "zipkin" and before == "get ") else before
    assert [(kind.label, kind.requests) for kind in found.kinds] == [
        (f"web:{before}/item/{{id}}", 200),
        (f"web:{before}/report", 100),
    ]
    assert {stage.match.operation for each in found.profiles for stage in each.stages[1:]} == {
        f"{before}/rows/{{id}}/all"
    }


def test_names_that_hold_the_route_stay(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /api/item/{id}", 0, 20, "server", http__route="/item/{id}")
        trace.call(root, "GET", "store", "GET /rows", 1, 9)

    (kind,) = list_kinds([filed(tmp_path, requests(make, 60), "otlp")]).kinds
    assert kind.label == "web:GET /api/item/{id}"


def test_paths_of_identifiers_that_nobody_recognises_are_one_kind(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        words = ["abcdefghij"[int(digit)] for digit in str(trace.number)]
        root = trace.span(None, "web", "GET", 0, 20, "server", http__target=f"/shop/{'-'.join(words)}")
        trace.call(root, "GET", "store", "GET /rows", 1, 9)

    (kind,) = list_kinds([filed(tmp_path, requests(make, 120), "otlp")]).kinds
    assert (kind.label, kind.requests) == ("web:GET", 120)


def test_a_part_of_the_spans_states_a_route(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        stated = {"http__route": "/report"} if trace.number % 2 else {}
        root = trace.span(None, "web", "GET", 0, 20, "server", **stated)
        trace.call(root, "GET", "store", "GET /rows", 1, 9)

    kinds = list_kinds([filed(tmp_path, requests(make, 120), "jaeger")]).kinds
    assert sorted(kind.label for kind in kinds) == ["web:/report", "web:GET"]
    assert np.isfinite([kind.p99_ms for kind in kinds]).all()
