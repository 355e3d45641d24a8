"""Profiles from histograms: buckets of both kinds, the common correlation, and answers of all kinds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.otel.histograms.buckets import from_classic, from_native
from kwiken.otel.histograms.fit import HistogramFit, fit_histograms
from kwiken.otel.metrics.prometheus import classic_buckets
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.metrics.snapshots import distribution
from tests.support.otel.prometheus_server import Vector, prometheus
from tests.support.project.commands import refused, run

Labels = dict[str, str]
GATEWAY = {"job": "kwiken", "instance": "g:1"}
STAGES: tuple[Labels, ...] = (
    {"kw_stage": "a", "kw_after": "", "kw_fanout": "1", "kw_idempotent": "true", "kw_threads": "1"},
    {"kw_stage": "b", "kw_after": "a", "kw_fanout": "4", "kw_idempotent": "false", "kw_threads": "2"},
)


def series(value: float, **labels: str) -> dict[str, Any]:
    return {"metric": GATEWAY | labels, "value": [0.0, str(value)]}


def cumulative(latencies_ms: np.ndarray[Any, Any], label: str, name: str) -> Vector:
    """Classic buckets as the runtime shows them."""
    histogram = LatencyHistogram()
    for latency in latencies_ms.ravel().tolist():
        histogram.add(latency / 1000)
    return [
        series(bucket[1], **{label: name, "le": bucket[0]})
        for bucket in classic_buckets(distribution(histogram))
    ]


class Recorded:
    """Answers of a Prometheus that has scraped requests of two stages, which share a factor or not."""

    def __init__(self, correlation: float, rows: int = 4000, own_ms: float = 1.0) -> None:
        rng = np.random.default_rng(7)
        common = rng.standard_normal((rows, 1))
        self.calls = {
            labels["kw_stage"]: 5.0
            * np.exp(
                0.8
                * (
                    np.sqrt(correlation) * common
                    + np.sqrt(1 - correlation) * rng.standard_normal((rows, int(labels["kw_fanout"])))
                )
            )
            for labels in STAGES
        }
        self.whole = own_ms + sum(calls.max(axis=1) for calls in self.calls.values())
        self.rows = rows
        self.answers: dict[str, Vector] = {
            "kw_stage_info": [series(1, kw_service="shop", **labels) for labels in STAGES],
            "kw_stage_call_duration_seconds_bucket": [
                each for name, calls in self.calls.items() for each in cumulative(calls, "kw_stage", name)
            ],
            "kw_request_duration_seconds_bucket": cumulative(self.whole, "kw_outcome", "answered"),
            "kw_stage_cpu_time_seconds_total": [series(rows * 0.002, kw_stage="a")],
            "kw_stage_attempts_total": [
                series(rows, kw_stage="a", kw_attempt_kind="primary", kw_outcome="won"),
                series(0.1 * rows, kw_stage="a", kw_attempt_kind="reissue", kw_outcome="cancelled"),
            ],
            "kw_stage_replicas": [
                series(2, kw_stage="a", kw_replica_state="live"),
                series(1, kw_stage="a", kw_replica_state="ejected"),
            ],
        }


def learned(recorded: Recorded, **settings: Any) -> HistogramFit:
    with prometheus(recorded.answers) as (address, _):
        return fit_histograms(address + "?lookback=10m", **settings)


def test_stages_are_learned_to_a_bucket() -> None:
    recorded = Recorded(0.0)
    found = learned(recorded)
    profile = found.profile
    assert [(stage.name, stage.after) for stage in profile.stages] == [
        ("shop:request (own time)", ()),
        ("a", ("shop:request (own time)",)),
        ("b", ("a",)),
    ]
    a, b = profile.stage("a"), profile.stage("b")
    assert a.busy_ms == pytest.approx(2.0)
    assert (a.replicas, a.reissuable, a.threads) == (2, True, 1)
    assert (b.busy_ms, b.replicas) == (None, None)
    assert (b.reissuable, b.threads) == (False, 2)
    assert b.calls_ms.shape == (recorded.rows, 4)
    for name, calls in recorded.calls.items():
        made = profile.stage(name).calls_ms
        for percent in (1, 50, 99, 99.9):
            assert np.percentile(made, percent) == pytest.approx(np.percentile(calls, percent), rel=0.1)
    assert found.requests == recorded.rows
    assert found.copied_share == pytest.approx(0.1)
    assert found.bucket_ratio == pytest.approx(2**0.25, rel=1e-4)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.8])
def test_the_common_correlation_is_found_by_the_requests_p99(correlation: float) -> None:
    found = learned(Recorded(correlation))
    # A p99 to a bucket tells the correlation roughly, and the less the higher it is.
    assert found.correlation == pytest.approx(correlation, abs=0.2)
    assert found.put_together_ms[1] == pytest.approx(found.measured_ms[1], rel=0.1)
    if correlation:
        assert found.independent_ms[1] < found.put_together_ms[1]


def test_the_mean_latency_is_the_measured_one() -> None:
    recorded = Recorded(0.5, own_ms=20.0)
    profile = learned(recorded).profile
    assert profile.latency_ms.mean() == pytest.approx(recorded.whole.mean(), rel=0.03)
    own = profile.stages[0].calls_ms
    assert own.min() == own.max() == pytest.approx(20.0, rel=0.2)


def test_the_same_histograms_give_the_same_rows() -> None:
    recorded = Recorded(0.3, rows=1000)
    first, second = learned(recorded).profile, learned(recorded).profile
    assert all(
        np.array_equal(one.calls_ms, other.calls_ms, equal_nan=True)
        for one, other in zip(first.stages, second.stages, strict=True)
    )


def test_all_counts_are_of_one_moment() -> None:
    with prometheus(Recorded(0.0, rows=1000).answers) as (address, queries):
        profile = fit_histograms(address).profile
    (end_s,) = {moment_s for _, moment_s in queries}
    assert len(queries) > 4
    assert profile.started_s[-1] == pytest.approx(end_s, abs=0.001)


def test_a_stage_that_some_requests_skip() -> None:
    recorded = Recorded(0.0)
    half = cumulative(recorded.calls["a"][: recorded.rows // 2], "kw_stage", "a")
    buckets = "kw_stage_call_duration_seconds_bucket"
    recorded.answers[buckets] = half + cumulative(recorded.calls["b"], "kw_stage", "b")
    assert learned(recorded).profile.stage("a").visit_share == pytest.approx(0.5, abs=0.01)


def test_native_histograms_where_there_are_no_classic_ones() -> None:
    recorded = Recorded(0.0)

    def native(latencies_ms: np.ndarray[Any, Any], **labels: str) -> dict[str, Any]:
        values = latencies_ms.ravel() / 1000
        index = np.floor(np.log2(values) * 16).astype(int)
        counts = [
            [0, str(2 ** (i / 16)), str(2 ** ((i + 1) / 16)), str(int((index == i).sum()))]
            for i in np.unique(index).tolist()
        ]
        native = {"count": str(len(values)), "sum": str(values.sum()), "buckets": counts}
        return {"metric": GATEWAY | labels, "histogram": [0.0, native]}

    del recorded.answers["kw_stage_call_duration_seconds_bucket"]
    recorded.answers["kw_stage_call_duration_seconds"] = [
        native(calls, kw_stage=name) for name, calls in recorded.calls.items()
    ]
    found = learned(recorded)
    assert found.bucket_ratio == pytest.approx(2 ** (1 / 16), rel=1e-6)
    for name, calls in recorded.calls.items():
        made = found.profile.stage(name).calls_ms
        assert np.percentile(made, 99) == pytest.approx(np.percentile(calls, 99), rel=0.03)


def test_only_the_services_own_instances_count() -> None:
    recorded = Recorded(0.0, rows=1000)
    other = {"job": "kwiken", "instance": "h:1"}
    recorded.answers["kw_stage_info"].append(
        {"metric": other | STAGES[0] | {"kw_service": "other"}, "value": [0.0, "1"]}
    )
    for each in cumulative(np.full((500, 1), 900.0), "kw_stage", "a"):
        each["metric"] |= other
        recorded.answers["kw_stage_call_duration_seconds_bucket"].append(each)
    with pytest.raises(InputError, match="several services, name one by --service: other, shop"):
        learned(recorded)
    with pytest.raises(InputError, match="no service 'shp'; known: other, shop"):
        learned(recorded, service="shp")
    found = learned(recorded, service="shop")
    assert found.profile.stage("a").calls_ms.max() < 500


def test_a_stage_defined_in_two_ways_is_refused() -> None:
    recorded = Recorded(0.0, rows=1000)
    recorded.answers["kw_stage_info"].append(
        {"metric": GATEWAY | STAGES[1] | {"kw_service": "shop", "kw_fanout": "5"}, "value": [0.0, "1"]}
    )
    with pytest.raises(InputError, match="'b' was defined in two ways"):
        learned(recorded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kw_fanout": "many"}, "kw_stage_info is not usable"),
        ({"kw_fanout": "0"}, "0 shards"),
        ({"kw_fanout": "99999999"}, "99999999 shards"),
        ({"kw_after": "nowhere"}, "no kw_stage_info of stage 'nowhere'"),
    ],
)
def test_facts_that_are_not_usable_are_refused(change: Labels, message: str) -> None:
    recorded = Recorded(0.0, rows=1000)
    recorded.answers["kw_stage_info"][1]["metric"] |= change
    with pytest.raises(InputError, match=message):
        learned(recorded)


def test_nothing_scraped_and_nothing_answered() -> None:
    with prometheus({}) as (address, _), pytest.raises(InputError, match="no gateway of kwiken was scraped"):
        fit_histograms(address)
    recorded = Recorded(0.0, rows=1000)
    recorded.answers["kw_request_duration_seconds_bucket"] = []
    with pytest.raises(InputError, match="no request of 'shop' was answered in the last 10m"):
        learned(recorded)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"", "the answer is not Prometheus's"),
        (200, b"<html>", "the answer is not Prometheus's"),
        (200, b'{"status": "error", "error": "bad query"}', "refused the query: bad query"),
        (200, b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', "no vector"),
        (
            200,
            b'{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "NaN"]}]}}',
            "not finite",
        ),
        (503, b"", "Prometheus answered 503"),
    ],
)
def test_useless_answers_are_reported(status: int, body: bytes, message: str) -> None:
    with (
        prometheus(lambda _: (status, body)) as (address, _),
        pytest.raises(InputError, match=message) as caught,
    ):
        fit_histograms(address)
    assert str(caught.value).startswith(address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("prometheus://", "names no host and port"),
        ("prometheus://host", "names no host and port"),
        ("prometheus:host", "names no host and port"),
        ("prometheus://host:x", "is no address"),
        ("prometheus://me@host:9090", "has a user"),
        ("prometheus://host:9090?limit=3", "unknown parameter 'limit'"),
        ("prometheus://host:9090?lookback=soon", "no duration"),
        ("prometheus://host:9090?lookback=0m", "no duration"),
    ],
)
def test_an_address_that_is_none_says_what_is_wrong(address: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_histograms(address)
    assert "prometheus://HOST:PORT" in str(caught.value)


@given(st.dictionaries(st.floats(1e-4, 100), st.floats(0, 1e6), max_size=20))
def test_any_cumulative_counts_make_ascending_quantiles(counts: dict[float, float]) -> None:
    buckets = from_classic(counts | {float("inf"): max(counts.values(), default=0.0)})
    if buckets is None:
        assert max(counts.values(), default=0.0) == 0
        return
    values, cut = buckets.spread(101)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    assert values.min() > 0
    assert not cut[values < max(counts) * 1000 * (1 - 1e-9)].any()


def test_latencies_beyond_the_last_bound_are_lower_bounds() -> None:
    buckets = from_classic({1.0: 50.0, float("inf"): 100.0})
    assert buckets is not None
    values, cut = buckets.spread(10)
    assert cut.tolist() == [False] * 5 + [True] * 5
    assert (values[cut] == 1000.0).all()
    assert from_native([]) is None


def test_the_command_says_what_histograms_cannot_tell(tmp_path: Any) -> None:
    recorded = Recorded(0.5, rows=1000)
    out = tmp_path / "profile.json"
    with prometheus(recorded.answers) as (address, asked):
        told = run("fit", address, "-o", str(out))
        shown = run("fit", address, "--json")
        assert shown.exit_code == 0, shown.stderr
        data = json.loads(shown.stdout)
    assert told.exit_code == 0, told.stderr
    assert "all calls of a request are taken to share one correlation" in told.stderr
    assert "10.0% of the calls had a copy" in told.stderr
    assert data["histograms"]["correlation"] == pytest.approx(0.5, abs=0.15)
    assert data["service"] == "shop"
    assert all("[1h]" in expression for expression, _ in asked)
    assert run("plan", str(out), "--reissue", "0.05").exit_code == 0


def test_options_of_traces_are_refused(tmp_path: Any) -> None:
    refused(run("fit", "prometheus://h:1", "--depth", "2"), "so --depth has no effect")
    refused(run("fit", "prometheus://h:1", "--list"), "so --list has no effect")
    refused(run("fit", "prometheus://h:1", str(tmp_path)), "must be the only source")
