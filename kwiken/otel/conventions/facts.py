"""Facts on one span: its kind, its outcome, its route, and the callee that a client's span names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kwiken.otel.conventions.callees import CALLEE_KEYS, SQL_KEYS, callee_of
from kwiken.otel.conventions.messaging import MESSAGING_KEYS, Role, role_of
from kwiken.otel.conventions.routes import PATH_KEYS, ROUTE_KEYS, Route, folded_name, route_of

_HTTP_KEYS: Final = ("http.response.status_code", "http.status_code", "http.status")
_GRPC_KEYS: Final = (
    "rpc.response.status_code",
    "rpc.grpc.status_code",
    "rpc.connect_rpc.error_code",
    "grpc.status_code",
    "grpc.status",
    "grpc.code",
)
_OUTCOME_KEY: Final = "outcome"  # of Micrometer
_JSON_RPC_KEY: Final = "rpc.jsonrpc.error_code"
_DATABASE_KEY: Final = "db.response.status_code"
_STATUS_KEYS: Final = ("otel.status_code", "status.code")
_ERROR_KEY: Final = "error"
_TYPE_KEY: Final = "error.type"
_FLAGS_KEYS: Final = ("response_flags", "envoy.response_flags")
OUTCOME_KEYS: Final = (
    *_HTTP_KEYS,
    *_GRPC_KEYS,
    _JSON_RPC_KEY,
    _DATABASE_KEY,
    _OUTCOME_KEY,
    *_STATUS_KEYS,
    _ERROR_KEY,
    _TYPE_KEY,
    *_FLAGS_KEYS,
)

MIN_HTTP_FAILURE: Final = 500
_RETRIED_HTTP: Final = frozenset((408, 429))  # a time-out and too many requests
_GRPC_FAILURES: Final = frozenset(
    (
        *("1", "2", "4", "8", "10", "12", "13", "14", "15"),
        *("cancelled", "canceled", "unknown", "deadlineexceeded", "resourceexhausted", "aborted"),
        *("unimplemented", "internal", "unavailable", "dataloss"),
    )
)
_JSON_RPC_FAILURE: Final = re.compile(r"-32(?:603|0\d\d)\Z")  # an internal error, and those of servers
# Codes of databases that are no failures: success, and SQL's classes of wrong data and wrong statements.
_DATABASE_ANSWER: Final = re.compile(r"(?:0+|OK|(?:00|02|22|23|42)[0-9A-Z]{3})\Z")
_HTTP_CODE: Final = re.compile(r"[1-5]\d\d\Z")
# Envoy's flags of answers that did not come from the upstream, or not whole.
_ENVOY_FAILURES: Final = frozenset(
    (
        *("UH", "UF", "UO", "NR", "URX", "NC", "DT", "DC", "LH", "UT", "LR", "UR", "UC", "FI", "RL"),
        *("UAEX", "IH", "SI", "DPE", "UPE", "UMSDR", "OM", "DF", "RFCF", "NFCF"),
    )
)
_NO: Final = frozenset(("", "false", "0", "no", "none"))


# An explicit "ok" overrules every mark. Answers that say that the client asked wrongly (404, NOT_FOUND) are
# no failures of the callee: they took the time of an answer, and nobody tries again.
def has_failed(attributes: Mapping[str, object], *, ok: bool, error: bool) -> bool:
    """Whether a span failed.

    There are three cases:

    1. The span says "ok" (the status of OTLP, `otel.status_code`, `error=false`): no.
    2. Its status or a mark says that it failed: yes.
    3. Otherwise no.

    Args:
        ok: whether the status of the span is "ok".
        error: whether the status of the span is an error.
    """
    if not attributes:
        return error
    stated = {str(attributes[key]).upper() for key in _STATUS_KEYS if key in attributes}
    flag = attributes.get(_ERROR_KEY)
    denied = flag is False or str(flag).lower() == "false"
    if ok or "OK" in stated or (denied and not error):
        return False
    if error or not stated.isdisjoint(("ERROR", "STATUS_CODE_ERROR")):
        return True
    return (
        (flag is not None and str(flag).lower() not in _NO)
        or any(_http_failed(attributes[key]) for key in _HTTP_KEYS if key in attributes)
        or any(_rpc_failed(attributes[key]) for key in _GRPC_KEYS if key in attributes)
        or _JSON_RPC_FAILURE.match(str(attributes.get(_JSON_RPC_KEY, ""))) is not None
        or attributes.get(_OUTCOME_KEY) == "SERVER_ERROR"
        or _database_failed(str(attributes.get(_DATABASE_KEY, "")))
        or _type_failed(attributes.get(_TYPE_KEY))
        or any(_flags_failed(attributes[key]) for key in _FLAGS_KEYS if key in attributes)
    )


def _http_failed(code: object) -> bool:
    try:
        number = int(float(str(code).split(" ", 1)[0]))  # also of `503 Service Unavailable`
    except (ValueError, OverflowError):
        return False
    return number >= MIN_HTTP_FAILURE or number in _RETRIED_HTTP


def _rpc_failed(code: object) -> bool:
    return re.sub("[^a-z0-9]", "", str(code).lower().removeprefix("statuscode.")) in _GRPC_FAILURES


def _database_failed(code: str) -> bool:
    if _HTTP_CODE.match(code):
        return _http_failed(code)
    return bool(code) and _DATABASE_ANSWER.match(code.upper()) is None


def _type_failed(kind: object) -> bool:
    """Whether `error.type` names a failure: a status that is one, or an exception."""
    text = "" if kind is None else str(kind)
    if text.isascii() and text.isdigit():
        return _http_failed(text)
    return bool(text) and text.lower() not in _NO and text.upper() not in {"NOT_FOUND", "ALREADY_EXISTS"}


def _flags_failed(flags: object) -> bool:
    return not _ENVOY_FAILURES.isdisjoint(re.split("[, ]+", str(flags)))


# Kinds as OTLP numbers them.
SERVER: Final = 2
CLIENT: Final = 3
PRODUCER: Final = 4
CONSUMER: Final = 5
# Kinds by their names in OTLP JSON and in the tag `span.kind`.
_NAMES: Final = ("internal", "server", "client", "producer", "consumer")
KINDS: Final[Mapping[object, int]] = {
    **{number: number for number in range(6)},
    **{str(number): number for number in range(6)},
    **{kind: number for number, kind in enumerate(_NAMES, 1)},
    **{f"SPAN_KIND_{kind.upper()}": number for number, kind in enumerate(_NAMES, 1)},
}
# States of a span, as OTLP numbers them.
UNSET: Final = 0
OK: Final = 1
FAILED: Final = 2

# Attributes that count; URLs and paths do only where nothing else says what was asked for.
WANTED: Final = frozenset(
    (*OUTCOME_KEYS, *MESSAGING_KEYS, *ROUTE_KEYS, *CALLEE_KEYS, "span.kind")
) - frozenset(PATH_KEYS)
PATHS: Final = frozenset(PATH_KEYS)
QUERIES: Final = frozenset(SQL_KEYS)


class Facts(NamedTuple):
    """Facts on one span, from its attributes.

    Attributes:
        kind: `SERVER`, `CLIENT`, `PRODUCER`, `CONSUMER`, or another number for none of them. A span that
            works off a message is a consumer, and one that sends a message a producer, whatever the kind
            that it states.
        route: name of the operation, with the route in it where the span states one.
        callee: service that a client's span calls, and the route there; None for other spans.
    """

    kind: int
    failed: bool
    route: Route
    callee: tuple[str, Route] | None


def facts_of(kind: int, status: int, name: str, attributes: Mapping[str, object]) -> Facts:
    """Facts on a span.

    Args:
        kind: kind as OTLP numbers it; 0 where the span states none.
        status: `UNSET`, `OK` or `FAILED`.
        attributes: its attributes; those in `WANTED` count.
    """
    name = folded_name(name)
    kind = KINDS.get(attributes.get("span.kind"), kind) if kind == 0 else kind
    role = None if kind in {PRODUCER, CONSUMER} else role_of(name, attributes)
    if role is not None:
        kind = CONSUMER if role is Role.CONSUMER else PRODUCER
    return Facts(
        kind,
        has_failed(attributes, ok=status == OK, error=status == FAILED),
        Route(name) if kind in {CLIENT, PRODUCER} else route_of(name, attributes, takes=kind == CONSUMER),
        callee_of(name, attributes) if kind == CLIENT else None,
    )
