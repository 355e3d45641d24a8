"""Series of one service in a Prometheus: its stages, and what its metrics counted in a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwiken.base.errors import InputError
from kwiken.model.latency import parents_first
from kwiken.model.plan.plan import SpanMatch
from kwiken.otel.histograms.buckets import Buckets, from_classic, from_native
from kwiken.otel.histograms.prometheus_api import PrometheusQuery, Series, vector_of

MAX_FANOUT: Final = 2_000
_INSTANCE: Final = ("job", "instance")


@dataclass(frozen=True, slots=True)
class StageFacts:
    """Facts of one stage, from its info metric, or from what others measure.

    Attributes:
        match: spans of its calls; None for those of our own runtime.
        writes: why its calls are taken for writes; empty where they are not, or the service says it.
    """

    name: str
    after: tuple[str, ...]
    fanout: int
    idempotent: bool
    threads: int
    match: SpanMatch | None = None
    writes: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """Histograms of one service over the window.

    Attributes:
        stages: facts of its stages, parents first.
        calls: latencies of the calls of each stage that had any.
        order: what is not known of the order of the calls; empty where it is.
        busy_ms: mean CPU time of a call by stage, milliseconds.
        replicas: number of replicas by stage.
        copied_share: share of the calls that had a copy, 0 or more.
    """

    name: str
    stages: Sequence[StageFacts]
    requests: Buckets
    calls: Mapping[str, Buckets]
    source: str
    order: str = ""
    busy_ms: Mapping[str, float] = field(default_factory=dict)
    replicas: Mapping[str, float] = field(default_factory=dict)
    copied_share: float = 0.0


class HistogramWindow:
    """Series of one service over the window.

    Args:
        query: where to ask, and for which window.
        instances: job and instance of the gateways of the service.
    """

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


def service_in(
    query: PrometheusQuery, wanted: str | None
) -> tuple[str, list[StageFacts], frozenset[tuple[str, ...]]] | None:
    """Name, stages and instances of a service on gateways of kwiken; None if no gateway was scraped.

    Raises:
        InputError: there is no such service, or several and none was named.
    """
    found = vector_of(query, f"last_over_time(kw_stage_info[{query.lookback}])")
    names = sorted({series.metric.get("kw_service", "") for series in found})
    if not names:
        return None
    if wanted is None and len(names) > 1:
        raise InputError(
            f"has several services, name one by --service: {', '.join(names[:20])}", where=query.where
        )
    name = names[0] if wanted is None else wanted
    if name not in names:
        raise InputError(f"no service {name!r}; known: {', '.join(names[:20])}", where="--service")
    mine = [series for series in found if series.metric.get("kw_service") == name]
    stages: dict[str, StageFacts] = {}
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


def _stage(labels: Mapping[str, str], query: PrometheusQuery) -> StageFacts:
    try:
        after = tuple(filter(None, labels.get("kw_after", "").split(",")))
        fanout, threads = int(labels["kw_fanout"]), int(labels.get("kw_threads", "1"))
        name = labels["kw_stage"]
    except (KeyError, ValueError) as error:
        raise InputError(f"kw_stage_info is not usable: {error}", where=query.where) from error
    if not 1 <= fanout <= MAX_FANOUT or threads < 1:
        raise InputError(
            f"kw_stage_info is not usable: {fanout} shards, {threads} threads", where=query.where
        )
    return StageFacts(name, after, fanout, labels.get("kw_idempotent") == "true", threads)


def _instance(series: Series) -> tuple[str, ...]:
    return tuple(series.metric.get(label, "") for label in _INSTANCE)


def _known(found: Mapping[str, Buckets | None]) -> dict[str, Buckets]:
    return {name: buckets for name, buckets in found.items() if buckets is not None}
