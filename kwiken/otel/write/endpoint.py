"""Address of a collector that takes OTLP over HTTP."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from kwiken.base.errors import InputError


def collector_url(endpoint: str, path: str, *, option: str) -> str:
    """URL of a collector's path for one signal.

    Args:
        endpoint: `http://HOST:PORT`, or the full URL of the path.
        path: path of the signal, for an endpoint without one.

    Raises:
        InputError: the endpoint is no HTTP URL.
    """
    try:
        parts = urlsplit(endpoint)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise InputError(f"{endpoint!r} is no URL of a collector; give http://HOST:4318", where=option)
    return urlunsplit(
        (parts.scheme, parts.netloc, parts.path if parts.path not in {"", "/"} else path, parts.query, "")
    )
