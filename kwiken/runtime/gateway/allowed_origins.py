"""Names that a gateway is called by, and which pages may send requests to it.

A browser sends what any page tells it to. A page of another origin is told by its headers; one whose name
was made to point at this machine (DNS rebinding) by the name that it calls.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?P<name>[A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?P<port>:[0-9]{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]{0,19}://(?P<authority>.{1,270})")


class Refusal(NamedTuple):
    """Why a request is not taken."""

    status: int
    reason: str


class AllowedOrigins:
    """What a gateway is called, and by whose pages it may be asked.

    Args:
        host: address that it listens on; bound to loopback, it is called by loopback's names alone.
        allowed: names by which it may be called besides, and whose pages may ask it; with any, other names
            are refused wherever it listens.
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
        """Why a request is refused; None where it is not.

        Args:
            method: of the request.
            hosts: its Host headers.
            origin: its Origin header, which browsers send with what a page has them send.
            fetch_site: its Sec-Fetch-Site header.
            may_lack_host: whether its version of HTTP needs no Host header.
        """
        if len(hosts) != 1 and not (may_lack_host and not hosts):
            return Refusal(400, f"a request has one Host header, not {len(hosts)}")
        host = hosts[0] if hosts else ""
        name = name_of(host)
        if hosts and name is None:
            return Refusal(400, f"no host: {host[:80]!r}")
        if self._names is not None and name is not None and name not in self._names:
            return Refusal(421, f"this gateway is not called {name[:80]!r}; --allowed-host adds a name")
        if method in SAFE_METHODS:
            return None
        if origin is not None:
            own = self._is_own(origin, host)
        else:
            own = fetch_site is None or fetch_site in {"same-origin", "none"}
        return (
            None
            if own
            else Refusal(403, "a page of another origin may not ask; --allowed-host adds its name")
        )

    def _is_own(self, origin: str, host: str) -> bool:
        match = _ORIGIN.fullmatch(origin)
        if match is None:  # "null": a page that hides where it comes from
            return False
        authority = match["authority"]
        return authority.lower() == host.lower() or name_of(authority) in self._allowed


def name_of(authority: str) -> str | None:
    """The name or address of `HOST` or `HOST:PORT`, in lower case, without brackets; None for other text."""
    match = _AUTHORITY.fullmatch(authority)
    return match["name"].strip("[]").lower().rstrip(".") if match is not None else None


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is this machine's own alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
