"""Fit of real traces of a ticket shop behind a gateway, against what a reader finds in the raw spans by hand."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kwiken.model.latency import end_to_end
from kwiken.model.profile.idempotence import taken_for
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import Fits, fit_profile, fit_profiles
from kwiken.tail.diagnosis.excess import SlowRequests
from kwiken.tail.diagnosis.explanation import explain, explain_time
from tests.otel.fit.test_fit_services import Times, by_hand
from tests.support.data.public_files import public_file
from tests.support.otel.span_trees import Span

FIRST, SECOND = (f"train-ticket/2023-01-{day}.json.gz" for day in (29, 30))


@pytest.fixture(scope="module")
def first() -> Fits:
    return fit_profiles([public_file(FIRST)], every=True)


def profile_of(fits: Fits, route: str) -> Profile:
    return next(p for p in fits.profiles if p.origin is not None and p.origin.kind.endswith(route))


def test_each_kind_has_the_stages_that_its_owner_expects(first: Fits) -> None:
    assert dict(first.roots) == {"ts-gateway-service:/*": 4551}
    assert [(kind.name, kind.requests) for kind in first.kinds[:5]] == [
        ("ts-travel-service:trips/left", 1205),
        ("ts-travel2-service:trips/left", 1097),
        ("ts-auth-service:login", 368),
        ("ts-inside-payment-service:inside_payment", 351),
        ("ts-preserve-service:preserve", 336),
    ]
    assert sum(kind.requests for kind in first.kinds) == 4551
    left = first.profiles[0]
    assert [stage.name for stage in left.stages[:4]] == [
        "ts-travel-service (own time)",
        "ts-basic-service:travels",
        "ts-seat-service:left_tickets",
        "ts-seat-service:left_tickets#2",
    ]
    preserve = profile_of(first, "/preserve")
    assert {stage.match.service for stage in preserve.stages[1:]} == {
        f"ts-{name}-service"
        for name in (
            "security", "contacts", "travel", "basic", "seat", "order", "assurance", "food", "user",
        )
    }  # fmt: skip
    for profile in first.profiles:
        replayed = end_to_end(profile.stages, {s.name: s.latency_ms for s in profile.stages})
        np.testing.assert_allclose(replayed, profile.latency_ms, rtol=1e-3, atol=0.01)
        assert len({stage.name for stage in profile.stages}) == len(profile.stages)
        assert max(len(stage.name) for stage in profile.stages) <= 44


def test_booking_a_ticket_is_never_copied(first: Fits) -> None:
    reads, writes = taken_for(profile_of(first, "/preserve"))
    assert "INSERT" in writes["ts-order-service:order"]
    assert set(reads) == {
        "ts-security-service:securityConfigs",
        "ts-contacts-service:contacts",
        "ts-travel-service:trip_detail",
        "ts-basic-service:travel",
        "ts-user-service:users/id",
    }
    assert taken_for(profile_of(first, "/inside_payment"))[0] == []


class _Reference(msgspec.Struct):
    spanID: str  # noqa: N815 - Jaeger's names


class _Process(msgspec.Struct):
    serviceName: str  # noqa: N815


class _Span(msgspec.Struct):
    spanID: str  # noqa: N815
    operationName: str  # noqa: N815
    startTime: int  # noqa: N815
    duration: int
    processID: str  # noqa: N815
    references: list[_Reference]


class _Trace(msgspec.Struct):
    spans: list[_Span]
    processes: dict[str, _Process]


class _File(msgspec.Struct):
    data: list[msgspec.Raw]


def raw_spans(path: Path, route: str) -> list[Span]:
    """Spans of all traces that hold a route, cut to their parents' times, with the names of raw services."""
    traces = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_File).data
    mark, found = f'"{route}"'.encode(), []
    decoder = msgspec.json.Decoder(_Trace)
    for number, raw in enumerate(traces):
        if bytes(raw).find(mark) >= 0:
            found += _cut(decoder.decode(raw), number)
    return found


def _cut(trace: _Trace, number: int) -> list[Span]:
    numbers = {span.spanID: place for place, span in enumerate(trace.spans, 1)}
    made: dict[int, Span] = {}
    waiting = sorted(trace.spans, key=lambda span: span.startTime)
    while waiting:
        left = []
        for span in waiting:
            parent = numbers[span.references[0].spanID] if span.references else 0
            if parent and parent not in made:
                left.append(span)
                continue
            start, end = span.startTime * 1000, (span.startTime + span.duration) * 1000
            if parent:
                start = min(max(start, made[parent].start), made[parent].end)
                end = max(min(end, made[parent].end), start)
            place = numbers[span.spanID]
            service = trace.processes[span.processID].serviceName
            made[place] = Span(number, place, parent, service, span.operationName, start, end)
        waiting = left
    return list(made.values())


def test_the_slowest_requests_are_explained_as_one_does_by_hand(first: Fits) -> None:
    """On the booking of a ticket: ts-order-service 45% and ts-seat-service 37% of the slowest 5%'s excess."""
    found = {slow.share: slow for slow in explain(profile_of(first, "/preserveservice/preserve")).slow}
    shares = {part.name: part.share for part in found[0.05].services}
    assert shares["ts-order-service"] == pytest.approx(0.45, abs=0.005)
    assert shares["ts-seat-service"] == pytest.approx(0.37, abs=0.005)
    assert [part.name for part in found[0.01].services[:2]] == ["ts-seat-service", "ts-order-service"]
    times = list(by_hand(raw_spans(public_file(FIRST), "/api/v1/preserveservice/preserve")).values())
    latency = np.array([sum(request.values()) for request in times])
    for share, slow in found.items():
        _agrees(slow, times, np.argsort(latency, kind="stable")[-max(1, round(share * len(times))) :])


def _agrees(slow: SlowRequests, times: list[Times], slowest: np.ndarray) -> None:
    whole = 0.0
    for part in slow.services:
        spent = np.array([request.get(part.link or part.name, 0.0) for request in times])
        excess = float(spent[slowest].mean() - np.median(spent))
        assert part.excess_ms == pytest.approx(excess, abs=0.005 * slow.excess_ms)
        whole += excess
    assert slow.excess_ms == pytest.approx(whole, rel=0.005)
    assert sum(part.excess_ms for part in slow.services) == pytest.approx(slow.excess_ms)


def test_injected_network_delays_are_named_as_the_links_to_the_faulty_services() -> None:
    """The faults of that day that the list calls network_delay, for the kind that reaches all three services."""
    left = profile_of(fit_profiles([public_file(SECOND)], every=True), "trips/left")
    assert left.service == "ts-travel-service"
    for minute, caller, callee in (
        ("12:15:56", "ts-travel-service", "ts-basic-service"),
        ("13:15:43", "ts-gateway-service", "ts-travel-service"),
        ("13:22:22", "ts-gateway-service", "ts-travel-service"),
        ("13:44:44", "ts-basic-service", "ts-route-service"),
        ("13:52:20", "ts-basic-service", "ts-route-service"),
    ):
        at = datetime.fromisoformat(f"2023-01-30T{minute}+00:00").timestamp()
        first = explain_time(left, at, at + 60).first
        assert first is not None
        assert (first.what, first.services) == ("link", (caller, callee))
        assert first.share > 0.5


def test_the_second_day_is_fitted_into_the_first_ones_stages(first: Fits) -> None:
    model = first.profiles[0]
    second = fit_profile([public_file(SECOND)], like=model)
    assert [(s.name, s.after) for s in second.stages] == [(s.name, s.after) for s in model.stages]
    assert second.requests == 632
    assert second.counts.get("calls_not_in_model", 0) == 0
    assert np.percentile(second.latency_ms, 99) > 3 * np.percentile(model.latency_ms, 99), (
        "faults of that day"
    )
