"""Suspect: the service, the link, or the links of one service, that is named first for slow requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import Floats

MIN_LINK_PART: Final = 0.1  # of what a service's links take in excess, for a link to count as slow too
MIN_SLOW_LINKS: Final = 2  # of one service in one request, for all its links to be suspected

What = Literal["service", "stage", "link", "links"]
Link = tuple[str, str]


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """First cause of slow requests to look at: a service, a link, or the links of a service.

    Attributes:
        what: `service` (or `stage`) for its own time; `link` for the time between two services; `links` for
            several links of one service that were slow in the same requests.
        name: words for it, such as `between shop and stock`.
        services: the service; both ends of a link, caller first, as a single slow link does not tell which
            end is at fault; or the service whose links are slow.
        excess_ms: mean over the slow requests of what it takes above its median, milliseconds.
        share: its share of the whole excess.
    """

    what: What
    name: str
    services: tuple[str, ...]
    excess_ms: float
    share: float


def link_name(link: Link) -> str:
    """Name of a link in words.

    Args:
        link: names of the caller and of the callee.
    """
    return f"between {link[0]} and {link[1]}"


def suspect(
    own_ms: Mapping[str, Floats], link_ms: Mapping[Link, Floats], *, by: Literal["service", "stage"]
) -> Suspect | None:
    """Name the largest of all services, links, and links of one service; None where nothing is in excess.

    The links of one service are taken together in those requests only in which two or more of them are slow:
    one slow callee after another would otherwise put the blame on their caller.

    Args:
        own_ms: by service: (m,) its time in each slow request less its median, milliseconds; m is 1 or more.
        link_ms: the same by link.
        by: whether `own_ms` is by service or by stage.
    """
    whole = sum(float(part.mean()) for part in (*own_ms.values(), *link_ms.values()))
    found: list[tuple[float, What, str, tuple[str, ...]]] = []
    found += [(float(part.mean()), by, name, (name,)) for name, part in own_ms.items()]
    found += [(float(part.mean()), "link", link_name(link), link) for link, part in link_ms.items()]
    found += [
        (together, "links", f"the links of {name}", (name,))
        for name in sorted({end for link in link_ms for end in link})
        if (together := _together(name, link_ms)) > 0
    ]
    # A name decides between equal excesses, so that the order of the input does not.
    excess, what, name, services = min(found, key=lambda each: (-each[0], each[2]))
    if whole <= 0 or excess <= 0:
        return None
    return Suspect(what=what, name=name, services=services, excess_ms=excess, share=excess / whole)


def _together(name: str, link_ms: Mapping[Link, Floats]) -> float:
    """Mean excess of a service's links over all slow requests, of those in which several were slow."""
    rows = np.maximum(np.stack([part for link, part in link_ms.items() if name in link]), 0.0)
    together = rows.sum(axis=0)
    slow = (rows >= MIN_LINK_PART * together) & (rows > 0)
    return float(np.where(slow.sum(axis=0) >= MIN_SLOW_LINKS, together, 0.0).mean())
