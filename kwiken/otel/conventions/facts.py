"""Facts on one span: its kind, its outcome, its route, and the callee that a client's span names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kwiken.otel.conventions.callees import CALLEE_KEYS, SQL_KEYS, callee_of
from kwiken.otel.conventions.messaging import MESSAGING_KEYS, Role, role_of
from kwiken.otel.conventions.outcomes import OUTCOME_KEYS, has_failed
from kwiken.otel.conventions.routes import PATH_KEYS, ROUTE_KEYS, Route, folded_name, route_of

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
