"""Excess of slow requests: milliseconds that each service and each link took above its own median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.tail.diagnosis.suspect import Link, Suspect, link_name, suspect

SLOW_SHARES: Final = (0.01, 0.05)
MIN_LEADING_SHARE: Final = 0.1  # of the excess, for a service to be named as one of its makers
MAX_LEADING: Final = 3
MIN_EXCESS: Final = 1e-4  # of the latency of slow requests, below which they are not slower

By = Literal["service", "stage"]


class ServiceExcess(msgspec.Struct, frozen=True, kw_only=True):
    """Part of one service, or of the link between two, in the excess of slow requests.

    Attributes:
        name: name of the service; of the stage where the profile does not say which service did the work; of
            a link in words.
        median_ms: median of its time over all requests, milliseconds; 0 where it takes no time in most.
        part_ms: median of its time over the requests in which it takes some, milliseconds.
        slow_ms: mean of its time over the slow requests, milliseconds.
        excess_ms: `slow_ms` less `median_ms`; below 0 for a service that takes less time in slow requests.
        share: its share of the whole excess.
        link: caller and callee, where the part is the time between a client's and a server's span (network,
            connection, queue); None for a service's own time.
    """

    name: str
    median_ms: float
    slow_ms: float
    excess_ms: float
    share: float
    part_ms: float = 0.0
    link: Link | None = None


class SlowRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest requests, or those of a given time, and what makes them slow.

    Attributes:
        share: share of all requests that count as slow.
        requests: number of slow requests, 1 or more.
        latency_ms: their mean latency, milliseconds.
        typical_ms: latency of a request in which every service and link takes its median, milliseconds.
        excess_ms: `latency_ms` less `typical_ms`; the sum over the services and links.
        services: parts of the services and links, largest excess first.
        by: `service`, or `stage` where the profile does not say which service did the work.
        first: what is named first; None without an excess.
        during_s: start and end of the time whose requests these are, seconds since 1970; medians are then
            those of all other requests. None for the slowest requests.
    """

    share: float
    requests: int
    latency_ms: float
    typical_ms: float
    excess_ms: float
    services: tuple[ServiceExcess, ...]
    by: By = "service"
    first: Suspect | None = None
    during_s: tuple[float, float] | None = None

    @property
    def leading_parts(self) -> tuple[ServiceExcess, ...]:
        """The few services and links that make most of the excess, largest first; none without an excess."""
        if self.excess_ms <= 0:
            return ()
        large = tuple(part for part in self.services if part.share >= MIN_LEADING_SHARE)
        return large[:MAX_LEADING] or self.services[:1]

    @property
    def leading(self) -> tuple[str, ...]:
        """Names of `leading_parts`."""
        return tuple(part.name for part in self.leading_parts)


def slow_requests(
    time_ms: Mapping[str, Floats],
    total_ms: Floats,
    *,
    by: By = "service",
    links: Mapping[Link, Floats] | None = None,
) -> tuple[SlowRequests, ...]:
    """Excess by service and link, for each share of slow requests.

    Args:
        time_ms: by service: (n,) its part of each request's latency, milliseconds; with `links` they sum to
            the latency.
        total_ms: (n,) latency of the requests, milliseconds; n is 1 or more.
        by: whether `time_ms` is by service, or by stage.
        links: by caller and callee: (n,) the link's part of each request's latency, milliseconds; None for
            none.
    """
    order = np.argsort(total_ms, kind="stable")
    usual = np.ones(len(order), np.bool_)
    return tuple(
        _slow(time_ms, links or {}, order[-max(1, round(share * len(order))) :], usual, by, share=share)
        for share in SLOW_SHARES
    )


def slow_in(
    time_ms: Mapping[str, Floats],
    slow: Bools,
    *,
    during_s: tuple[float, float],
    by: By = "service",
    links: Mapping[Link, Floats] | None = None,
) -> SlowRequests:
    """Excess by service and link of the requests of some time, above the medians of all others.

    Args:
        time_ms: as `slow_requests` takes it.
        slow: (n,) whether the request is of that time; true for one or more, and not for all.
        during_s: start and end of the time, seconds since 1970.
        by: as `slow_requests` takes it.
        links: as `slow_requests` takes it.
    """
    found = _slow(time_ms, links or {}, np.flatnonzero(slow), ~slow, by, share=float(slow.mean()))
    return msgspec.structs.replace(found, during_s=during_s)


def _slow(
    time_ms: Mapping[str, Floats],
    links: Mapping[Link, Floats],
    slowest: np.ndarray[tuple[int], np.dtype[np.intp]],
    usual: Bools,
    by: By,
    *,
    share: float,
) -> SlowRequests:
    columns: dict[tuple[str, Link | None], Floats] = {(name, None): spent for name, spent in time_ms.items()}
    columns |= {(link_name(link), link): spent for link, spent in links.items()}
    median = {part: float(np.median(spent[usual])) for part, spent in columns.items()}
    slow = {part: float(spent[slowest].mean()) for part, spent in columns.items()}
    typical, latency = sum(median.values()), sum(slow.values())
    whole = latency - typical
    if abs(whole) < MIN_EXCESS * latency:  # rounding, of which shares say nothing
        whole = 0.0
    parts = [
        ServiceExcess(
            name=part[0],
            median_ms=median[part],
            part_ms=_median_of_some(spent[usual]),
            slow_ms=slow[part],
            excess_ms=slow[part] - median[part],
            share=(slow[part] - median[part]) / whole if whole > 0 else 0.0,
            link=part[1],
        )
        for part, spent in columns.items()
    ]
    return SlowRequests(
        share=share,
        requests=len(slowest),
        latency_ms=latency,
        typical_ms=typical,
        excess_ms=whole,
        services=tuple(sorted(parts, key=lambda part: (-part.excess_ms, part.name))),
        by=by,
        first=None
        if whole <= 0
        else suspect(
            {name: spent[slowest] - median[name, None] for name, spent in time_ms.items()},
            {link: spent[slowest] - median[link_name(link), link] for link, spent in links.items()},
            by=by,
        ),
    )


def _median_of_some(spent: Floats) -> float:
    """Median over the requests that took some time, milliseconds; 0 where none did."""
    some = spent[spent > 0]
    return float(np.median(some)) if len(some) else 0.0
