"""Excess of slow requests by service: milliseconds that each service took above its own median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import Floats

SLOW_SHARES: Final = (0.01, 0.05)
MIN_LEADING_SHARE: Final = 0.1  # of the excess, for a service to be named as one of its makers
MAX_LEADING: Final = 3

By = Literal["service", "stage"]


class ServiceExcess(msgspec.Struct, frozen=True, kw_only=True):
    """Part of one service in the excess of slow requests.

    Attributes:
        name: name of the service; of the stage where the profile does not say which service did the work.
        median_ms: median of its time over all requests, milliseconds.
        slow_ms: mean of its time over the slow requests, milliseconds.
        excess_ms: `slow_ms` less `median_ms`; below 0 for a service that takes less time in slow requests.
        share: its share of the excess of all services.
    """

    name: str
    median_ms: float
    slow_ms: float
    excess_ms: float
    share: float


class SlowRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest requests, and what makes them slow.

    Attributes:
        share: share of all requests that count as slow.
        requests: number of slow requests, 1 or more.
        latency_ms: their mean latency, milliseconds.
        typical_ms: latency of a request in which every service takes its median, milliseconds.
        excess_ms: `latency_ms` less `typical_ms`; the sum over the services.
        services: parts of the services, largest excess first.
        by: `service`, or `stage` where the profile does not say which service did the work.
    """

    share: float
    requests: int
    latency_ms: float
    typical_ms: float
    excess_ms: float
    services: tuple[ServiceExcess, ...]
    by: By = "service"

    @property
    def leading(self) -> tuple[str, ...]:
        """Names of the few services that make most of the excess, largest first; none without an excess."""
        if self.excess_ms <= 0:
            return ()
        large = [part.name for part in self.services if part.share >= MIN_LEADING_SHARE]
        return tuple(large[:MAX_LEADING]) or (self.services[0].name,)


def slow_requests(
    time_ms: Mapping[str, Floats],
    total_ms: Floats,
    *,
    by: By = "service",
    shares: tuple[float, ...] = SLOW_SHARES,
) -> tuple[SlowRequests, ...]:
    """Excess by service, for each share of slow requests.

    Args:
        time_ms: by service: (n,) its part of each request's latency, milliseconds; they sum to the latency.
        total_ms: (n,) latency of the requests, milliseconds; n is 1 or more.
        by: whether `time_ms` is by service, or by stage.
        shares: shares of the requests that count as slow, each above 0 and at most 1.
    """
    order = np.argsort(total_ms, kind="stable")
    return tuple(_slow(time_ms, order[-max(1, round(share * len(order))) :], share, by) for share in shares)


def _slow(
    time_ms: Mapping[str, Floats], slowest: np.ndarray[tuple[int], np.dtype[np.intp]], share: float, by: By
) -> SlowRequests:
    median = {name: float(np.median(spent)) for name, spent in time_ms.items()}
    slow = {name: float(spent[slowest].mean()) for name, spent in time_ms.items()}
    typical, latency = sum(median.values()), sum(slow.values())
    whole = latency - typical
    parts = [
        ServiceExcess(
            name=name,
            median_ms=median[name],
            slow_ms=slow[name],
            excess_ms=slow[name] - median[name],
            share=(slow[name] - median[name]) / whole if whole > 0 else 0.0,
        )
        for name in time_ms
    ]
    return SlowRequests(
        share=share,
        requests=len(slowest),
        latency_ms=latency,
        typical_ms=typical,
        excess_ms=whole,
        services=tuple(sorted(parts, key=lambda part: (-part.excess_ms, part.name))),
        by=by,
    )
