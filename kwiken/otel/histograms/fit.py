"""A profile from per-stage histograms: what each stage does, without what a request had in common.

Histograms give the distribution of each stage's latencies, and nothing that is joint: which stages and shards
were slow for the same request, which copy belonged to which call, and when. The rows of the profile are
therefore put together at random, as if stages and shards were independent. The histogram of whole requests
tells how wrong that is.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.latency import end_to_end, parents_first
from kwiken.otel.histograms.buckets import Buckets, from_classic, from_native
from kwiken.otel.histograms.prometheus_api import PrometheusQuery, Series, vector_of
from kwiken.plan import SpanMatch
from kwiken.profile import OWN_TIME, Profile, StageProfile

MAX_ROWS: Final = 20_000  # requests put together; more would say no more than the buckets do
MIN_ROWS: Final = 1_000
MAX_CALLS: Final = 2_000_000  # of one stage
REQUEST: Final = "request"
_INSTANCE: Final = ("job", "instance")
_CALLS: Final = "kw_stage_call_duration_seconds"
_REQUESTS: Final = "kw_request_duration_seconds"
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class HistogramFit:
    """Profile learned from histograms, and how far it is from what was measured of whole requests.

    Attributes:
        profile: the profile.
        requests: number of answered requests in the window.
        measured_ms: p50 and p99 of whole requests as measured, milliseconds.
        put_together_ms: p50 and p99 of the profile's rows, milliseconds.
        copied_share: share of the calls that had a copy, 0 or more.
        bucket_ratio: largest ratio of the bounds of a bucket that holds calls.
    """

    profile: Profile
    requests: int
    measured_ms: tuple[float, float]
    put_together_ms: tuple[float, float]
    copied_share: float
    bucket_ratio: float


@dataclass(frozen=True, slots=True)
class _Stage:
    """Facts of one stage, from its info metric."""

    name: str
    after: tuple[str, ...]
    fanout: int
    idempotent: bool
    threads: int


class _Window:
    """Series of one service over the window."""

    def __init__(self, query: PrometheusQuery, instances: frozenset[tuple[str, ...]]) -> None:
        self._query = query
        self._instances = instances

    def increases(self, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Increase of a counter over the window by these labels, summed over the service's instances."""
        found: dict[tuple[str, ...], float] = defaultdict(float)
        for series in self._series(f"increase({metric}[{self._query.lookback}])", labels):
            found[tuple(series.metric.get(label, "") for label in labels)] += series.number
        return found

    def largest(self, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Largest value of a gauge in the window by these labels, of any instance."""
        found: dict[tuple[str, ...], float] = defaultdict(float)
        for series in self._series(f"max_over_time({metric}[{self._query.lookback}])", labels):
            key = tuple(series.metric.get(label, "") for label in labels)
            found[key] = max(found[key], series.number)
        return found

    def histograms(self, metric: str, label: str) -> dict[str, Buckets]:
        """Histograms over the window by a label: classic ones, or native ones where there are no classic."""
        cumulative: dict[str, dict[float, float]] = defaultdict(dict)
        for (name, bound), count in self.increases(f"{metric}_bucket", label, "le").items():
            try:
                cumulative[name][float(bound)] = count
            except ValueError as error:
                raise InputError(
                    f"{metric} has a bucket le={bound[:40]!r}", where=self._query.where
                ) from error
        if cumulative:
            return _known({name: from_classic(counts) for name, counts in cumulative.items()})
        native: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for series in self._series(f"increase({metric}[{self._query.lookback}])", (label,)):
            if series.histogram is not None:
                native[series.metric.get(label, "")] += [
                    (float(low), float(high), float(count))
                    for _, low, high, count in series.histogram[1].buckets
                ]
        return _known({name: from_native(buckets) for name, buckets in native.items()})

    def _series(self, expression: str, labels: Sequence[str]) -> list[Series]:
        by = ", ".join((*_INSTANCE, *labels))
        found = vector_of(self._query, f"sum by ({by}) ({expression})")
        return [series for series in found if _instance(series) in self._instances]


def fit_histograms(address: str, *, service: str | None = None) -> HistogramFit:
    """Learn a profile from the histograms that a Prometheus scraped from gateways.

    Args:
        address: `prometheus://HOST:PORT?lookback=1h`.
        service: name of the service; None if there is only one.

    Raises:
        InputError: Prometheus does not answer, or has no histograms of such a service in the window.
    """
    query = PrometheusQuery.parse(address)
    name, stages, instances = _service(query, service)
    window = _Window(query, instances)
    requests = window.histograms(_REQUESTS, "kw_outcome").get("answered")
    calls = window.histograms(_CALLS, "kw_stage")
    if requests is None or not calls:
        raise InputError(
            f"no request of {name!r} was answered in the last {query.lookback}, or it was scraped only once",
            where=query.where,
        )
    count = round(requests.total)
    widest = max(stage.fanout for stage in stages)
    rows = min(MAX_ROWS, MAX_CALLS // widest, max(MIN_ROWS, count))
    rng = np.random.default_rng(_SEED)
    busy = _busy_ms(window)
    replicas = window.largest("kw_stage_replicas", "kw_stage")
    own = f"{name}:{REQUEST}{OWN_TIME}"
    profiles = [
        _stage_profile(
            stage,
            calls.get(stage.name),
            per_request=(calls[stage.name].total / requests.total if stage.name in calls else 0.0),
            rows=rows,
            rng=rng,
            service=name,
            own=own,
            busy_ms=busy.get(stage.name),
            replicas=round(replicas.get((stage.name,), 0.0)) or None,
        )
        for stage in stages
    ]
    profile, path = _assembled(name, own, profiles, requests, query)
    attempts = window.increases("kw_stage_attempts_total", "kw_attempt_kind")
    primaries = attempts.get(("primary",), 0.0)
    copies = attempts.get(("reissue",), 0.0) + attempts.get(("catch_up",), 0.0)
    whole = np.percentile(path, (50, 99)).tolist()
    return HistogramFit(
        profile,
        count,
        (requests.quantile_ms(0.5), requests.quantile_ms(0.99)),
        (whole[0], whole[1]),
        copies / primaries if primaries else 0.0,
        max(_ratio(buckets) for buckets in calls.values()),
    )


def _service(
    query: PrometheusQuery, wanted: str | None
) -> tuple[str, list[_Stage], frozenset[tuple[str, ...]]]:
    """Name, stages and instances of the service.

    Raises:
        InputError: there is no such service, or several and none was named.
    """
    found = vector_of(query, f"last_over_time(kw_stage_info[{query.lookback}])")
    names = sorted({series.metric.get("kw_service", "") for series in found})
    if not names:
        raise InputError(
            f"no gateway of kwiken was scraped in the last {query.lookback} (no kw_stage_info)",
            where=query.where,
        )
    if wanted is None and len(names) > 1:
        raise InputError(
            f"has several services, name one by --service: {', '.join(names[:20])}", where=query.where
        )
    name = names[0] if wanted is None else wanted
    if name not in names:
        raise InputError(f"no service {name!r}; known: {', '.join(names[:20])}", where="--service")
    mine = [series for series in found if series.metric.get("kw_service") == name]
    stages: dict[str, _Stage] = {}
    for series in mine:
        stage = _stage(series.metric, query)
        if stages.setdefault(stage.name, stage) != stage:
            raise InputError(
                f"stage {stage.name!r} was defined in two ways in the last {query.lookback}; "
                "choose a shorter lookback",
                where=query.where,
            )
    unknown = {parent for stage in stages.values() for parent in stage.after} - stages.keys()
    if unknown:
        raise InputError(f"there is no kw_stage_info of stage {min(unknown)!r}", where=query.where)
    listed = list(stages.values())
    ordered = [listed[place] for place in parents_first(listed)]
    return name, ordered, frozenset(_instance(series) for series in mine)


def _stage(labels: Mapping[str, str], query: PrometheusQuery) -> _Stage:
    try:
        after = tuple(filter(None, labels.get("kw_after", "").split(",")))
        fanout, threads = int(labels["kw_fanout"]), int(labels.get("kw_threads", "1"))
        name = labels["kw_stage"]
    except (KeyError, ValueError) as error:
        raise InputError(f"kw_stage_info is not usable: {error}", where=query.where) from error
    if not 1 <= fanout <= MAX_CALLS // MIN_ROWS or threads < 1:
        raise InputError(
            f"kw_stage_info is not usable: {fanout} shards, {threads} threads", where=query.where
        )
    return _Stage(name, after, fanout, labels.get("kw_idempotent") == "true", threads)


def _instance(series: Series) -> tuple[str, ...]:
    return tuple(series.metric.get(label, "") for label in _INSTANCE)


def _known(found: Mapping[str, Buckets | None]) -> dict[str, Buckets]:
    return {name: buckets for name, buckets in found.items() if buckets is not None}


def _ratio(buckets: Buckets) -> float:
    filled = (buckets.counts > 0) & np.isfinite(buckets.high_ms)
    return float((buckets.high_ms[filled] / buckets.low_ms[filled]).max(initial=1.0))


def _busy_ms(window: _Window) -> dict[str, float]:
    """Mean CPU time of an answered attempt by stage, milliseconds."""
    cpu_s = window.increases("kw_stage_cpu_time_seconds_total", "kw_stage")
    answered: dict[str, float] = defaultdict(float)
    for (stage, outcome), count in window.increases(
        "kw_stage_attempts_total", "kw_stage", "kw_outcome"
    ).items():
        if outcome in {"won", "lost"}:
            answered[stage] += count
    return {
        stage: spent_s / answered[stage] * 1000
        for (stage,), spent_s in cpu_s.items()
        if spent_s > 0 and answered.get(stage, 0.0) > 0
    }


def _stage_profile(
    stage: _Stage,
    buckets: Buckets | None,
    *,
    per_request: float,
    rows: int,
    rng: np.random.Generator,
    service: str,
    own: str,
    busy_ms: float | None,
    replicas: int | None,
) -> StageProfile:
    """Profile of one stage: evenly spaced quantiles of its histogram, dealt to the calls at random."""
    rows_called = min(rows, round(rows * min(1.0, per_request / stage.fanout)))
    calls_ms = np.full((rows, stage.fanout), np.nan)
    censored = np.zeros((rows, stage.fanout), np.bool_)
    if buckets is not None and rows_called:
        values, cut = buckets.spread(rows_called * stage.fanout)
        dealt = rng.permutation(len(values)).reshape(rows_called, stage.fanout)
        chosen = rng.permutation(rows)[:rows_called]
        calls_ms[chosen], censored[chosen] = values[dealt], cut[dealt]
    return StageProfile(
        name=stage.name,
        after=stage.after or (own,),
        match=SpanMatch(service=f"{service}-{stage.name}", operation=stage.name),
        calls_ms=calls_ms,
        censored=censored,
        busy_ms=busy_ms,
        replicas=replicas,
        reissuable=stage.idempotent,
        threads=stage.threads,
    )


def _assembled(
    service: str,
    own: str,
    stages: Sequence[StageProfile],
    requests: Buckets,
    query: PrometheusQuery,
) -> tuple[Profile, Floats]:
    """The profile, with a constant own time by which its mean latency is that of the requests."""
    rows = len(stages[0].calls_ms)
    path = end_to_end(
        [_own(service, own, np.zeros(rows)), *stages],
        {own: np.zeros(rows), **{stage.name: stage.latency_ms for stage in stages}},
    )
    measured = requests.spread(rows)[0]
    own_ms = max(0.0, float(np.mean(measured) - np.mean(path)))
    latency = path + own_ms
    end = time.time()
    return (
        Profile(
            service=service,
            stages=(_own(service, own, np.full(rows, own_ms)), *stages),
            latency_ms=latency,
            started_s=np.linspace(end - query.lookback_s, end, rows, dtype=np.float64),
            counts={
                "requests": rows,
                "requests_in_histograms": round(requests.total),
                "calls": int(sum((~np.isnan(stage.calls_ms)).sum() for stage in stages)),
                "calls_censored": int(sum(stage.censored.sum() for stage in stages)),
            },
        ),
        latency,
    )


def _own(service: str, name: str, times: Floats) -> StageProfile:
    return StageProfile(
        name=name,
        match=SpanMatch(service=service, operation=REQUEST),
        calls_ms=times[:, None],
        censored=np.zeros((len(times), 1), np.bool_),
        reissuable=False,
    )
