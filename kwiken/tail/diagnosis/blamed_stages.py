"""Blame of stages for slow requests, frequent critical paths and effective stages (Kwiken section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import DagNode, critical_path, percentiles_of

SLOW_SHARE = 0.05  # share of the requests that count as slow
BLAME_SIGMAS = 2.0  # standard deviations above its mean from which a contribution is an outlier
PATHS_COVER = 0.9  # share of the requests that the reported critical paths cover
EFFECTIVE_SHARE = 0.9  # share of a path's latency that its effective stages hold


@dataclass(frozen=True)
class Blame:
    """Part of one stage in the latency of slow requests.

    Attributes:
        mean_share: share of the mean latency that the stage contributes.
        blamed: share of the slow requests that the stage is blamed for.
        timed_out: share of the slow requests in which the stage timed out.
    """

    mean_share: float
    blamed: float
    timed_out: float


def blame(
    contribution_ms: Mapping[str, Floats],
    total_ms: Floats,
    *,
    slow: float = SLOW_SHARE,
    sigmas: float = BLAME_SIGMAS,
    timed_out: Mapping[str, Bools] | None = None,
) -> dict[str, Blame]:
    """Blame stages for the slowest requests.

    A stage is blamed for a request when it contributed more than its own mean plus two of its standard
    deviations over all requests, or when it timed out. Several stages may be blamed for one request, so the
    shares may sum to more than 1.

    Args:
        contribution_ms: by stage: (n,) contribution to each request's latency, milliseconds.
        total_ms: (n,) latency of the requests.
        slow: share of the requests that count as slow, above 0 and at most 1.
        sigmas: number of standard deviations above the mean from which a contribution is an outlier.
        timed_out: by stage: (n,) whether it timed out.

    Raises:
        InputError: without requests, or for a share outside (0, 1].
    """
    if not 0 < slow <= 1:
        raise InputError(f"the slow share must be in (0, 1], not {slow}")
    if not len(total_ms):
        raise InputError("blame needs at least one request")
    count = max(1, round(slow * len(total_ms)))
    slowest = np.argsort(total_ms, kind="stable")[-count:]
    mean_total = float(total_ms.mean())
    table: dict[str, Blame] = {}
    for name, spent in contribution_ms.items():
        out = (timed_out or {}).get(name, np.zeros(len(spent), dtype=np.bool_))
        outlier = spent > spent.mean() + sigmas * spent.std()
        table[name] = Blame(
            mean_share=float(spent.mean()) / mean_total if mean_total > 0 else 0.0,
            blamed=float((outlier | out)[slowest].mean()),
            timed_out=float(out[slowest].mean()),
        )
    return table


@dataclass(frozen=True)
class CriticalPath:
    """Critical path: a chain of stages that determined the latency of some requests.

    Attributes:
        stages: names from first to last.
        share: share of the requests with this path.
        effective: smallest set of its stages that makes up more than 90% of those requests' latency.
    """

    stages: tuple[str, ...]
    share: float
    effective: tuple[str, ...]


@dataclass(frozen=True)
class Characterisation:
    """Shape of a service's latency: its critical paths, effective stages and tail ratios.

    Attributes:
        paths: the most frequent critical paths that cover 90% of the requests.
        effective: all effective stages, in DAG order.
        effective_per_path: mean number of effective stages on a path, weighted by the paths' shares.
        in_degree: number of parents of each effective stage.
        tail_ratio: p99 over median of whole requests.
        stage_tail_ratio: p99 over median of each stage.
    """

    paths: tuple[CriticalPath, ...]
    effective: tuple[str, ...]
    effective_per_path: float
    in_degree: dict[str, int]
    tail_ratio: float
    stage_tail_ratio: dict[str, float]


def characterise(
    stages: Sequence[DagNode], latency_ms: Mapping[str, Floats], total_ms: Floats
) -> Characterisation:
    """Critical paths and effective stages of recorded requests.

    Args:
        latency_ms: by stage: (n,) milliseconds.
        total_ms: (n,) latency of the requests.

    Raises:
        InputError: without stages or requests.
    """
    if not stages or not len(total_ms):
        raise InputError("nothing to characterise: no stages or no requests")
    on_path = critical_path(stages, latency_ms)
    paths = _frequent_paths(stages, latency_ms, on_path)
    effective = {name for path in paths for name in path.effective}
    weight = sum(path.share for path in paths)
    return Characterisation(
        paths=paths,
        effective=tuple(stage.name for stage in stages if stage.name in effective),
        effective_per_path=sum(len(path.effective) * path.share for path in paths) / weight,
        in_degree={stage.name: len(stage.after) for stage in stages if stage.name in effective},
        tail_ratio=_tail_ratio(total_ms),
        stage_tail_ratio={stage.name: _tail_ratio(latency_ms[stage.name]) for stage in stages},
    )


def _frequent_paths(
    stages: Sequence[DagNode], latency_ms: Mapping[str, Floats], on_path: Bools
) -> tuple[CriticalPath, ...]:
    packed = np.packbits(on_path, axis=0).T.copy()
    # one value per path, to sort rows at once
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, which, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    requests = on_path.shape[1]
    paths: list[CriticalPath] = []
    covered = 0
    for path in np.argsort(-counts, kind="stable").tolist():
        if covered >= PATHS_COVER * requests:
            break
        covered += int(counts[path])
        members = which == path
        names = [stage.name for stage, on in zip(stages, on_path[:, first[path]], strict=True) if on]
        means = {name: float(latency_ms[name][members].mean()) for name in names}
        paths.append(CriticalPath(tuple(names), float(counts[path]) / requests, _effective(means)))
    return tuple(paths)


def _effective(means: Mapping[str, float]) -> tuple[str, ...]:
    """Smallest set of stages that holds more than 90% of the sum, in the order given."""
    total = sum(means.values())
    chosen: set[str] = set()
    held = 0.0
    for name in sorted(means, key=lambda name: -means[name]):
        if chosen and held > EFFECTIVE_SHARE * total:
            break
        chosen.add(name)
        held += means[name]
    return tuple(name for name in means if name in chosen)


def _tail_ratio(values: Floats) -> float:
    middle, tail = percentiles_of(values, (50, 99))
    return float(tail / middle) if middle > 0 else float("inf")
