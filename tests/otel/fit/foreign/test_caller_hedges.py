"""Callers that hedge by themselves: attempts of one call are one call, not a fan-out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import HedgedAlready, RequestKind
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

DELAY_MS = 30.0


def hedged(
    trace: Trace,
    above: Span,
    start: float,
    *,
    share: int = 16,
    loser: str = "cancelled",
    copy_wins: bool = True,
    attempts: int = 2,
) -> float:
    """A call of `index`, with copies every 30 ms where it is slow; its end.

    Args:
        loser: `cancelled` at the winner's end, `failed` there, or `runs on` for 200 ms.
    """
    quick = 10 + trace.rng.random()
    if trace.number % share:
        trace.call(above, "idx.Search/Find", "index", "idx.Search/Find", start, start + quick)
        return start + quick
    begins = [start + DELAY_MS * number for number in range(attempts)]
    end = begins[-1] + quick if copy_wins else begins[-1] + 5
    winner = attempts - 1 if copy_wins else 0
    for number, begin in enumerate(begins):
        lost = number != winner
        ends = end + 200 if lost and loser == "runs on" else end
        trace.call(
            above,
            "idx.Search/Find",
            "index",
            "idx.Search/Find",
            begin,
            ends,
            error=lost and loser == "failed",
        )
    return end


def front(**how: object) -> Callable[[Trace], None]:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "GET /q", 0, 0, "server")
        root.end = root.start + round((hedged(trace, root, 2.0, **how) + 2) * 1_000_000)  # type: ignore[arg-type]

    return make


def check(profile: Profile, hedges: int, after: float = DELAY_MS) -> None:
    assert [stage.name for stage in profile.stages] == ["front (own time)", "index:idx.Search/Find"]
    own, index = profile.stages
    np.testing.assert_allclose(own.latency_ms, 4.0, atol=0.01)
    assert index.calls_ms.shape[1] == 1
    assert index.pairs_ms is not None
    assert len(index.pairs_ms) == hedges
    np.testing.assert_allclose(index.pairs_ms[:, 0] - index.pairs_ms[:, 1], after)
    assert blamed(profile) == "index"
    excess = excess_ms(profile)
    assert excess["index"] == pytest.approx(sum(excess.values()), rel=0.01)


@pytest.mark.parametrize("name", ["F04_client_hedges_loser_error", "F04_client_hedges_loser_no_error"])
def test_a_caller_that_hedges_makes_one_call(name: str) -> None:
    profile = fit_profile([field_file(name)])
    check(profile, 42)
    index = profile.stages[1]
    assert index.censored.sum() == 42
    p50, p99 = np.percentile(index.calls_ms, (50, 99), method="higher")
    assert (p50, p99) == (pytest.approx(10.06, abs=0.01), pytest.approx(41.3, abs=0.01))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loser", ["cancelled", "failed", "runs on"])
@pytest.mark.parametrize("copy_wins", [True, False], ids=["copy wins", "first wins"])
def test_whatever_becomes_of_the_loser(form: str, loser: str, copy_wins: bool, tmp_path: Path) -> None:
    if not copy_wins and loser == "cancelled":
        pytest.skip("two that end together do not tell who won")
    path = filed(tmp_path, requests(front(loser=loser, copy_wins=copy_wins)), form)
    profile = fit_profile([path])
    check(profile, 25)
    assert profile.stages[1].censored.sum() == (25 if copy_wins else 0)


def test_three_attempts(tmp_path: Path) -> None:
    check(fit_profile([filed(tmp_path, requests(front(attempts=3)), "otlp")]), 25)


@pytest.mark.parametrize("change", [without_kinds, with_shared_ids])
def test_other_tracers(change: Callable[[list[Span]], list[Span]], tmp_path: Path) -> None:
    check(fit_profile([filed(tmp_path, change(requests(front())), "jaeger")]), 25)


def test_attempts_at_different_pods_that_write_no_spans(tmp_path: Path) -> None:
    spans = [span for span in requests(front(), 480) if span.service == "front"]
    for span in spans:
        if span.kind == "client":
            span.attributes = {"server.address": f"index-{span.id % 3}.index.shop.svc"}
    profile = fit_profile([filed(tmp_path, spans, "zipkin")])
    assert [stage.match.service for stage in profile.stages] == ["front", "index.shop.svc"]
    assert profile.stages[1].pairs_ms is not None
    assert len(profile.stages[1].pairs_ms) == 30


def test_losers_whose_servers_span_is_missing(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        front(loser="failed")(trace)
        trace.spans = [span for span in trace.spans if not (span.kind == "server" and span.error)]

    check(fit_profile([filed(tmp_path, requests(make), "otlp")]), 25)


def test_deep_in_a_trace_the_callee_of_the_slow_attempt_is_to_blame(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "edge", "GET /all", 0, 0, "server")
        client, mid = trace.call(root, "GET", "front", "GET /q", 1, 2)
        end = hedged(trace, mid, 3.0)
        for span in (root, client, mid):
            span.end = root.start + round((end + 4 - 0.1 * span.id) * 1_000_000)
        for server in [span for span in trace.spans if (span.service, span.kind) == ("index", "server")]:
            first, last = ((at - root.start) / 1e6 for at in (server.start, server.end))
            trace.call(server, "GET", "store", "GET /key", first + 1, last - 1)
        trace.call(mid, "GET", "ads", "GET /ads", 3, 5)

    profile = fit_profile([filed(tmp_path, requests(make), "jaeger")], depth=2)
    assert blamed(profile) == "store"
    assert excess_ms(profile)["store"] > 20
    assert not [stage.name for stage in profile.stages if "#" in stage.name]


def test_fan_outs_of_different_widths_are_no_hedges(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "GET /q", 0, 40, "server")
        for shard in range(3 if trace.number % 4 == 0 else 1):
            trace.call(root, "GET", "index", "GET /part", 2 + shard, 12 + 20 * trace.rng.random())

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert profile.stages[1].calls_ms.shape[1] == 3
    assert profile.stages[1].pairs_ms is None


def test_calls_that_follow_while_others_run_are_no_hedges(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "GET /q", 0, 60, "server")
        trace.call(root, "GET", "index", "GET /part", 2, 22 + trace.rng.random())
        if trace.number % 3 == 0:
            trace.call(root, "GET", "index", "GET /part", 12 + 9 * trace.rng.random(), 42)

    assert fit_profile([filed(tmp_path, requests(make), "otlp")]).stages[1].pairs_ms is None


KIND = RequestKind(name="q", requests=400, p50_ms=14.0, p99_ms=45.0)


def test_the_advice_tells_the_delay_and_what_another_one_would_do() -> None:
    profile = fit_profile([field_file("F04_client_hedges_loser_no_error")])
    found, _ = advise(profile, budget=0.05, kind=KIND)
    (step,) = (each for each in found.steps if isinstance(each, HedgedAlready))
    assert (step.stage, step.after_ms, step.copies) == ("index:idx.Search/Find", 30.0, 0.07)
    assert step.instead_ms is not None
    assert step.instead_ms <= 15  # half of the present delay, where no plan has another one
    # All calls that were hedged after 30 ms would have answered by the difference sooner.
    assert step.instead_p99_ms == pytest.approx(step.p99_ms - (30 - step.instead_ms), abs=0.1)


def test_the_advice_names_no_other_delay_for_writes(tmp_path: Path) -> None:
    spans = requests(front())
    for span in spans:
        span.name = span.name.replace("Find", "Buy")
    profile = fit_profile([filed(tmp_path, spans, "otlp")])
    found, plan = advise(profile, budget=0.05, kind=KIND)
    (step,) = (each for each in found.steps if isinstance(each, HedgedAlready))
    assert step.after_ms == DELAY_MS
    assert step.instead_ms is None
    assert plan is None
