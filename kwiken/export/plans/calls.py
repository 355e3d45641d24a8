"""Wire form of a stage's calls: a gRPC method or an HTTP path at a host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert, parse_json
from kwiken.model.plan.plan import SpanMatch

MAX_BYTES: Final = 4 << 20
MAX_PORT: Final = 65_535
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_GRPC: Final = re.compile(rf"/?(?P<service>{_NAME}(?:\.{_NAME})*)/(?P<method>{_NAME})\Z")
_HTTP: Final = re.compile(
    r"(?:HTTP )?(?:(?P<method>GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH):? )?(?P<path>/[!-~]*)\Z"
)
# How web frameworks spell a variable segment: {id}, :id, <id>, <int:id>.
_VARIABLE: Final = re.compile(r"\{[^/{}]+\}|:[A-Za-z_]\w*|<[^/<>]+>", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\Z")


class StageAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Address of a stage's calls, where its spans do not name one.

    Attributes:
        call: `package.Service/Method`, `/path` or `GET /path/{id}`; None: the name of the stage's spans.
        prefix: common start of all paths of the stage, instead of one call.
        host: name of the callee that callers use; None: the service name of the stage's spans.
        port: port that callers use, from 1 to 65,535; None: not known.
    """

    call: str | None = None
    prefix: str | None = None
    host: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        """Refuse values that no address or request can have."""
        if self.port is not None and not 1 <= self.port <= MAX_PORT:
            raise ValueError(f"port must be from 1 to {MAX_PORT}, not {self.port}")
        if self.host is not None and not _HOST.match(self.host):
            raise ValueError(f"host must be a name like cart.shop.svc.cluster.local, not {self.host!r}")
        if self.call is not None and self.prefix is not None:
            raise ValueError("give call or prefix, not both")
        if self.call is not None and call_named(self.call, sure=True) is None:
            raise ValueError(
                f"call must be package.Service/Method, /path or GET /path/{{id}}, not {self.call!r}"
            )
        if self.prefix is not None and not _is_plain_path(self.prefix):
            raise ValueError(f"prefix must start with '/' and hold no space, '?' or '#', not {self.prefix!r}")


@dataclass(frozen=True, kw_only=True)
class ExportedCall:
    """One kind of call; a proxy or client cannot tell equal calls apart.

    Attributes:
        path: exact path; None where `regex` or `prefix` is given.
        regex: RE2 expression of the whole path.
        method: HTTP method; None for any.
        grpc: full service name and method of a gRPC call.
        host: callee's host, lower case; empty where it does not matter or is not known.
        port: callee's port; None where it is not known.
    """

    path: str | None = None
    regex: str | None = None
    prefix: str | None = None
    method: str | None = None
    grpc: tuple[str, str] | None = None
    host: str = ""
    port: int | None = None

    def __str__(self) -> str:
        """Method, host and path, as a person would write them."""
        path = self.path or self.regex or f"{self.prefix}*"
        where = f"{self.host}:{self.port}" if self.port is not None else self.host
        return f"{self.method or ''} {where}{path}".strip()


def call_named(text: str, *, sure: bool = False) -> ExportedCall | None:
    """The call that a span's name or an entry of a map denotes; None if it denotes none.

    Args:
        text: `package.Service/Method` or with a leading slash; `/path`, `GET /path`, `HTTP GET /path`.
        sure: whether to take `Service/Method` without a package for gRPC too, as written by a person.
    """
    found = _GRPC.match(text)
    if found is not None and ("." in found["service"] or (sure and not text.startswith("/"))):
        service, method = found["service"], found["method"]
        return ExportedCall(path=f"/{service}/{method}", method="POST", grpc=(service, method))
    found = _HTTP.match(text)
    if found is None or not _is_plain_path(found["path"]) or "*" in found["path"]:
        return None
    segments = found["path"].split("/")
    if not any(_VARIABLE.fullmatch(segment) for segment in segments):
        return ExportedCall(path=found["path"], method=found["method"])
    parts = ("[^/]+" if _VARIABLE.fullmatch(segment) else re.escape(segment) for segment in segments)
    return ExportedCall(regex="/".join(parts), method=found["method"])


def _is_plain_path(text: str) -> bool:
    """Whether a text can match a request's path: printable ASCII, starts with a slash, has no query."""
    return text.startswith("/") and text.isascii() and text.isprintable() and not set(text) & set(" ?#")


def call_of(match: SpanMatch | None, target: StageAddress | None) -> ExportedCall | None:
    """The call of a stage: the map's, else the one its spans' name denotes; None if neither denotes one.

    Args:
        match: what the stage's spans say; None if nothing.
        target: the stage's entry in the map; None if there is none.
    """
    if target is not None and target.prefix is not None:
        found: ExportedCall | None = ExportedCall(prefix=target.prefix)
    elif target is not None and target.call is not None:
        found = call_named(target.call, sure=True)
    else:
        found = _seen(match)
    if found is None:
        return None
    host, port = address_of(match, target)
    return replace(found, host=host.lower(), port=port)


def _seen(match: SpanMatch | None) -> ExportedCall | None:
    """The call that a stage's spans denote by their name and method; None if they denote none."""
    if match is None:
        return None
    found = call_named(match.operation)
    if found is None and match.path is not None:
        found = call_named(match.path)
    if found is None or found.method is not None:
        return found
    return replace(found, method=match.method)


def address_of(match: SpanMatch | None, target: StageAddress | None) -> tuple[str, int | None]:
    """Host and port of a stage's calls: the map's, else those its spans state, else the service as the host.

    Args:
        match: what the stage's spans say; None if nothing.
        target: the stage's entry in the map; None if there is none.

    Returns:
        The host, empty if it is not known, and the port, None if it is not known.
    """
    hosts = [target.host if target is not None else None]
    hosts += [match.host, match.service] if match is not None else []
    host = next((each for each in hosts if each is not None and _HOST.match(each)), "")
    stated = target.port if target is not None else None
    return host, stated if stated is not None or match is None else match.port


def entry_for(match: SpanMatch | None) -> dict[str, Any]:
    """Entry of a map for a stage whose call is not known, with all that its spans say filled in.

    Args:
        match: what the stage's spans say; None if nothing.
    """
    host, port = address_of(match, None)
    method = match.method if match is not None and match.method is not None else "GET"
    return {"call": f"{method} /path", "host": host or "name", "port": 80 if port is None else port}


def read_targets(text: str | bytes, *, where: str = "map") -> dict[str, StageAddress]:
    """Read a map from stages to calls, as JSON. A plain string stands for `{"call": ...}`.

    Args:
        text: `{"lookup": "shop.Search/Lookup", "rank": {"prefix": "/rank", "host": "rank", "port": 8080}}`.

    Raises:
        InputError: for invalid JSON or entries; names the stage and the field.
    """
    raw: Any = parse_json(text, where=where, max_bytes=MAX_BYTES)
    if not isinstance(raw, dict):
        raise InputError("must hold a JSON object: stages and where their calls go", where=where)
    return {name: _target(value, f"{where}: stage {name!r}") for name, value in raw.items()}


def _target(value: Any, where: str) -> StageAddress:
    if not isinstance(value, str | dict):
        raise InputError(
            f"must be a call or an object with call, prefix, host or port, not {value!r}", where=where
        )
    return convert({"call": value} if isinstance(value, str) else value, StageAddress, where=where)


def check_known(targets: Mapping[str, StageAddress], stages: Mapping[str, Any], *, where: str) -> None:
    """Refuse a map that names a stage which the plan lacks: most likely a typo.

    Args:
        where: name of the input in errors, for example a file's path.

    Raises:
        InputError: names the stage and some known ones.
    """
    for name in targets:
        if name not in stages:
            known = ", ".join(sorted(stages)[:10]) or "none"
            raise InputError(f"the plan has no stage {name!r}; its stages: {known}", where=where)
