"""Slow replicas: instances of a service that answer more slowly than others at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from kwiken.model.profile.profile import Instance

MIN_TIMES: Final = 1.5  # of the others' time, from which an instance counts as slow
MIN_ABOVE_SLOW: Final = 0.15  # of its calls beyond the others' 95th percentile, for a slow tail
MIN_SIGMAS: Final = 4.0  # standard deviations above chance: one in 30,000
MIN_EXTRA: Final = 0.01  # of the latency of all requests, below which a slow instance does not matter
SLOW_QUANTILE: Final = 0.95


class SlowReplica(msgspec.Struct, frozen=True, kw_only=True):
    """Instance of a service that answers more slowly than the others at the same time.

    Attributes:
        name: name of the instance, such as that of its pod.
        times: its median over that of the others or, where `tail` is true, its 95th percentile over theirs.
        tail: whether only its slowest calls are slow.
        extra: what its calls took beyond the others' mean, as a share of the latency of all requests.
    """

    service: str
    name: str
    others: int
    times: float
    tail: bool
    extra: float


def slow_replicas(instances: Sequence[Instance]) -> tuple[SlowReplica, ...]:
    """Name the slow ones among the instances of services, the one that costs most first.

    There are two cases: 1. an instance answers more slowly in general; 2. only its slowest calls are slower.

    Args:
        instances: instances of all services, each beside the others of its service.
    """
    found = []
    for each in instances:
        if each.extra < MIN_EXTRA:
            continue
        common = each.times >= MIN_TIMES and _sigmas(each, each.above_median, 0.5) >= MIN_SIGMAS
        tail = (
            each.slow_times >= MIN_TIMES
            and each.above_slow >= MIN_ABOVE_SLOW
            and _sigmas(each, each.above_slow, 1 - SLOW_QUANTILE) >= MIN_SIGMAS
        )
        if common or tail:
            found.append(
                SlowReplica(
                    service=each.service,
                    name=each.name,
                    others=each.others,
                    times=each.times if common else each.slow_times,
                    tail=not common,
                    extra=each.extra,
                )
            )
    return tuple(sorted(found, key=lambda each: (-each.extra, each.service, each.name)))


def _sigmas(each: Instance, above: float, usual: float) -> float:
    """Standard deviations by which the share of calls above a quantile exceeds the usual share."""
    spread = usual * (1 - usual) * (1 / each.calls + 1 / each.other_calls)
    return (above - usual) / math.sqrt(spread)
