"""Profile from per-stage histograms: the latency of each stage, without joint slowness of requests.

Histograms give the distribution of each stage's latencies, and nothing that is joint: which stages and shards
were slow for the same request, which copy belonged to which call, and when. The rows of the profile are
therefore put together at random. One number is learned from the histogram of whole requests: a correlation
that all calls of a request share (a Gaussian copula with one common factor), such that the rows' p99 is the
measured one. Which stages share it remains unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end, percentiles_of
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.change_over_time import IN_HISTOGRAMS
from kwiken.model.profile.profile import OWN_TIME, Profile, StageProfile
from kwiken.otel.histograms.buckets import Buckets
from kwiken.otel.histograms.others import SOURCES, measured_by_others
from kwiken.otel.histograms.prometheus_api import PrometheusQuery
from kwiken.otel.histograms.window import HistogramWindow, MeasuredWindow, StageFacts, service_in

MAX_ROWS: Final = 20_000  # requests put together; more would say no more than the buckets do
MIN_ROWS: Final = 1_000
MAX_CORRELATION: Final = 0.99
_HALVINGS: Final = 8  # of the interval in which the correlation is searched
MAX_CALLS: Final = 2_000_000  # of one stage
REQUEST: Final = "request"
P99: Final = 0.99
_CALLS: Final = "kw_stage_call_duration_seconds"
_REQUESTS: Final = "kw_request_duration_seconds"
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class HistogramFit:
    """Profile learned from histograms, and how far it is from what was measured of whole requests.

    Attributes:
        requests: number of answered requests in the window.
        measured_ms: p50 and p99 of whole requests as measured, milliseconds.
        independent_ms: p50 and p99 of rows as if all calls were independent, milliseconds.
        put_together_ms: p50 and p99 of the profile's rows, milliseconds.
        correlation: correlation that all calls of a request are taken to share, 0 to `MAX_CORRELATION`.
        copied_share: share of the calls that had a copy, 0 or more.
        bucket_ratio: largest ratio of the bounds of a bucket that holds calls.
        order: what is not known of the order of the calls; empty where it is.
    """

    profile: Profile
    requests: int
    measured_ms: tuple[float, float]
    independent_ms: tuple[float, float]
    put_together_ms: tuple[float, float]
    correlation: float
    copied_share: float
    bucket_ratio: float
    source: str
    order: str


def fit_histograms(address: str, *, service: str | None = None) -> HistogramFit:
    """Learn a profile from the histograms that a Prometheus scraped from gateways, or from tools of others.

    Args:
        service: name of the service; None if there is only one.

    Raises:
        InputError: Prometheus does not answer, or has no histograms of such a service in the window.
    """
    query = PrometheusQuery.parse(address)
    measured = _measured(query, service)
    requests, calls = measured.requests, measured.calls
    count = round(requests.total)
    widest = max(stage.fanout for stage in measured.stages)
    rows = min(MAX_ROWS, MAX_CALLS // widest, max(MIN_ROWS, count))
    samplers = [
        _CallSampler(
            stage,
            calls.get(stage.name),
            (calls[stage.name].total / requests.total if stage.name in calls else 0.0),
            rows,
            np.random.default_rng((_SEED, number)),
        )
        for number, stage in enumerate(measured.stages)
    ]
    common = np.random.default_rng(_SEED).standard_normal(rows)

    def assembled(correlation: float) -> Profile:
        profiles = [
            each.profile(
                common,
                correlation,
                service=measured.name,
                busy_ms=measured.busy_ms.get(each.stage.name),
                replicas=round(measured.replicas.get(each.stage.name, 0.0)) or None,
            )
            for each in samplers
        ]
        return _assembled(measured.name, profiles, requests, query)

    independent = assembled(0.0)
    correlation, profile = _correlated(assembled, independent, requests.quantile_ms(P99))
    return HistogramFit(
        profile,
        count,
        (requests.quantile_ms(0.5), requests.quantile_ms(P99)),
        _percentiles(independent),
        _percentiles(profile),
        correlation,
        measured.copied_share,
        max(_ratio(buckets) for buckets in calls.values()),
        measured.source,
        measured.order,
    )


def _measured(query: PrometheusQuery, service: str | None) -> MeasuredWindow:
    """Histograms of the service: of gateways of kwiken, or else of others."""
    found = service_in(query, service)
    if found is None:
        others = measured_by_others(query, service)
        if others is None:
            known = ", ".join(dict.fromkeys(metric for source in SOURCES for metric in (source.requests,)))
            raise InputError(
                f"no gateway of kwiken was scraped in the last {query.lookback} (no kw_stage_info), and no "
                f"requests were measured by others ({known})",
                where=query.where,
            )
        return others
    name, stages, instances = found
    window = HistogramWindow(query, instances)
    requests = window.histograms(_REQUESTS, "kw_outcome").get("answered")
    calls = window.histograms(_CALLS, "kw_stage")
    if requests is None or not calls:
        raise InputError(
            f"no request of {name!r} was answered in the last {query.lookback}, or it was scraped only once",
            where=query.where,
        )
    attempts = window.increases("kw_stage_attempts_total", "kw_attempt_kind")
    primaries = attempts.get(("primary",), 0.0)
    copies = attempts.get(("reissue",), 0.0) + attempts.get(("catch_up",), 0.0)
    replicas = window.largest('kw_stage_replicas{kw_replica_state="live"}', "kw_stage")
    return MeasuredWindow(
        name,
        stages,
        requests,
        calls,
        "gateways of kwiken",
        busy_ms=_busy_ms(window),
        replicas={stage: number for (stage,), number in replicas.items()},
        copied_share=copies / primaries if primaries else 0.0,
    )


def _ratio(buckets: Buckets) -> float:
    filled = (buckets.counts > 0) & np.isfinite(buckets.high_ms)
    return float((buckets.high_ms[filled] / buckets.low_ms[filled]).max(initial=1.0))


def _busy_ms(window: HistogramWindow) -> dict[str, float]:
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


def _correlated(
    assembled: Callable[[float], Profile], independent: Profile, wanted_ms: float
) -> tuple[float, Profile]:
    """The correlation at which the p99 of the rows is the wanted one, and the profile of these rows.

    The p99 grows with the correlation, for stages in a row as for stages side by side: bisection finds it.
    """
    low, best = 0.0, independent
    high = MAX_CORRELATION
    if _percentiles(independent)[1] >= wanted_ms:
        return low, best
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        profile = assembled(middle)
        if _percentiles(profile)[1] <= wanted_ms:
            low, best = middle, profile
        else:
            high = middle
    return low, best


def _percentiles(profile: Profile) -> tuple[float, float]:
    p50, p99 = percentiles_of(profile.latency_ms, (50, 99))
    return p50, p99


class _CallSampler:
    """Calls of one stage: quantiles of its histogram, and random numbers by which rows get them.

    Args:
        buckets: its histogram; None without calls.
    """

    def __init__(
        self,
        stage: StageFacts,
        buckets: Buckets | None,
        per_request: float,
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        self.stage = stage
        self._rows = rows
        called = min(rows, round(rows * min(1.0, per_request / stage.fanout))) if buckets is not None else 0
        self._chosen = np.sort(rng.permutation(rows)[:called])
        self._own = rng.standard_normal((called, stage.fanout))
        self._values: Floats = np.empty(0)
        self._cut: Bools = np.empty(0, np.bool_)
        if buckets is not None and called:
            self._values, self._cut = buckets.spread(self._own.size)

    def profile(
        self, common: Floats, correlation: float, *, service: str, busy_ms: float | None, replicas: int | None
    ) -> StageProfile:
        """Profile of the stage.

        Args:
            common: (rows,) standard normal factor of each request.
            correlation: share of the variance that the common factor has, 0 to 1.
            busy_ms: mean CPU time of a call, milliseconds; None where unknown.
            replicas: number of replicas; None where unknown.
        """
        stage = self.stage
        shape = (self._rows, stage.fanout)
        calls_ms, censored = np.full(shape, np.nan), np.zeros(shape, np.bool_)
        scores = sqrt(correlation) * common[self._chosen, None] + sqrt(1 - correlation) * self._own
        order = np.argsort(scores, axis=None)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        calls_ms[self._chosen] = self._values[rank].reshape(scores.shape)
        censored[self._chosen] = self._cut[rank].reshape(scores.shape)
        return StageProfile(
            name=stage.name,
            after=stage.after or (_own_name(service),),
            match=stage.match or SpanMatch(service=f"{service}-{stage.name}", operation=stage.name),
            calls_ms=calls_ms,
            censored=censored,
            busy_ms=busy_ms,
            replicas=replicas,
            reissuable=stage.idempotent,
            writes=stage.writes,
            threads=stage.threads,
        )


def _assembled(
    service: str, stages: Sequence[StageProfile], requests: Buckets, query: PrometheusQuery
) -> Profile:
    """Profile of the stages. A constant own time brings its mean latency to the measured one."""
    rows = len(stages[0].calls_ms)
    own = _own_name(service)
    path = end_to_end(
        [_own_time(service, np.zeros(rows)), *stages],
        {own: np.zeros(rows), **{stage.name: stage.latency_ms for stage in stages}},
    )
    own_ms = max(0.0, float(np.mean(requests.spread(rows)[0]) - np.mean(path)))
    return Profile(
        service=service,
        stages=(_own_time(service, np.full(rows, own_ms)), *stages),
        latency_ms=path + own_ms,
        started_s=np.linspace(query.end_s - query.lookback_s, query.end_s, rows, dtype=np.float64),
        counts={
            "requests": rows,
            IN_HISTOGRAMS: round(requests.total),
            "calls": int(sum((~np.isnan(stage.calls_ms)).sum() for stage in stages)),
            "calls_censored": int(sum(stage.censored.sum() for stage in stages)),
        },
    )


def _own_name(service: str) -> str:
    return f"{service}:{REQUEST}{OWN_TIME}"


def _own_time(service: str, times: Floats) -> StageProfile:
    return StageProfile(
        name=_own_name(service),
        match=SpanMatch(service=service, operation=REQUEST),
        calls_ms=times[:, None],
        censored=np.zeros((len(times), 1), np.bool_),
        reissuable=False,
    )
