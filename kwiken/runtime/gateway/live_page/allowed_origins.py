"""Host and origin checks of a gateway against requests that foreign web pages make a browser send.

A request from a page of another origin is recognised by its Origin and Sec-Fetch-Site headers. A page whose
name was made to resolve to this machine (DNS rebinding) is recognised by the Host header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
NAMES_KEPT: Final = 256  # Host headers whose name is kept
_AUTHORITY = re.compile(r"(?P<name>[A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?P<port>:[0-9]{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]{0,19}://(?P<authority>.{1,270})")


class Refusal(NamedTuple):
    """Status and reason of a refused request."""

    status: int
    reason: str


class AllowedOrigins:
    """Host names that a gateway answers to, and origins whose pages may send requests to it.

    Args:
        host: address that the gateway listens on; on loopback it answers to the names of loopback alone.
        allowed: further names that it answers to, and whose pages may send requests; with any of them, other
            names are refused on every address.
    """

    def __init__(self, host: str, allowed: Collection[str] = ()) -> None:
        self._allowed = frozenset(name.strip("[]").lower().rstrip(".") for name in allowed)
        known = LOOPBACK | self._allowed | {host.lower()}
        self._names = known if self._allowed or is_loopback(host) else None

    def refusal(
        self,
        method: str,
        hosts: Sequence[str],
        *,
        origin: str | None,
        fetch_site: str | None,
        may_lack_host: bool,
    ) -> Refusal | None:
        """Check the headers of a request; returns the reason to refuse it, or None.

        Args:
            origin: value of its Origin header, which browsers add to requests that a page makes.
            may_lack_host: whether its version of HTTP needs no Host header.
        """
        if len(hosts) != 1 and not (may_lack_host and not hosts):
            return Refusal(400, f"a request must have one Host header, not {len(hosts)}")
        host = hosts[0] if hosts else ""
        name = name_of(host)
        if hosts and name is None:
            return Refusal(400, f"not a host name: {host[:80]!r}")
        if self._names is not None and name is not None and name not in self._names:
            return Refusal(
                421, f"this gateway does not answer to {name[:80]!r}; allow a name by --allowed-host"
            )
        if method in SAFE_METHODS:
            return None
        if origin is not None:
            own = self._is_own(origin, host)
        else:
            own = fetch_site is None or fetch_site in {"same-origin", "none"}
        return (
            None if own else Refusal(403, "pages of other origins are refused; allow one by --allowed-host")
        )

    def _is_own(self, origin: str, host: str) -> bool:
        match = _ORIGIN.fullmatch(origin)
        if match is None:  # "null": a page with an opaque origin
            return False
        authority = match["authority"]
        return authority.lower() == host.lower() or name_of(authority) in self._allowed


@lru_cache(maxsize=NAMES_KEPT)
def name_of(authority: str) -> str | None:
    """Name or address in `HOST` or `HOST:PORT`, in lower case, without brackets; None for other text."""
    match = _AUTHORITY.fullmatch(authority)
    return match["name"].strip("[]").lower().rstrip(".") if match is not None else None


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
