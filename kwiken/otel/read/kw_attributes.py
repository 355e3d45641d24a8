"""Decoder of the `kw.*` attributes of our own spans into a row of `OWN`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from kwiken.otel.read import columns as c
from kwiken.otel.write.records import AttemptKind, Outcome

MARK: Final = b'"kw.'
FIRST_ITEM: Final = b'"kw.first_item_ms"'
KINDS: Final = {kind.value: number for number, kind in enumerate(AttemptKind, 1)}
OUTCOMES: Final = {outcome.value: number for number, outcome in enumerate(Outcome, 1)}
MAX_SHARD: Final = 10_000
MAX_ATTEMPT: Final = 1_000_000
MAX_THREADS: Final = 1_000_000
MAX_BUSY_MS: Final = 86_400_000.0  # a day, as profiles take it


Attributes = Mapping[str, Any]


def own_note(attributes: Attributes, names: c.Names) -> int | None:
    """Number of a span's note, without CPU time and worth; None for a span of another tracer.

    Raises:
        ValueError: an attribute has a wrong type or range; names the attribute.
    """
    service = attributes.get("kw.service")
    if not isinstance(service, str):
        return None
    stage = _text(attributes, "kw.stage")
    if stage is None:
        role = c.REQUEST
    elif "kw.attempt.kind" in attributes:
        role = c.ATTEMPT
    elif "kw.fanout" in attributes:
        role = c.STAGE
    else:
        role = c.SERVED
    note = (
        role,
        _choice(attributes, "kw.attempt.kind", KINDS) if role == c.ATTEMPT else 0,
        _choice(attributes, "kw.outcome", OUTCOMES) if role == c.ATTEMPT else 0,
        _marks(attributes),
        _whole(attributes, "kw.shard", 0, MAX_SHARD - 1),
        _whole(attributes, "kw.attempt", 0, MAX_ATTEMPT),
        _whole(attributes, "kw.fanout", 1, MAX_SHARD),
        _whole(attributes, "kw.threads", 1, MAX_THREADS),
        names.text(service),
        names.text(stage),
        names.text(_text(attributes, "kw.replica")),
        names.text(_text(attributes, "kw.node")),
        names.text(_text(attributes, "kw.plan")),
        _number(attributes.get("kw.utility"), "kw.utility", 1.0, 1.0),
        _share(attributes.get("kw.sample.share")),
    )
    return names.note(note)


def busy_ms(value: object) -> float:
    """CPU time of a call, milliseconds; NaN for None.

    Raises:
        ValueError: the value is no time from 0 to a day.
    """
    return _number(value, "kw.busy_ms", math.nan, MAX_BUSY_MS)


def worth(value: object) -> float:
    """Weight of an answer beside those of the other shards, from 0 to 1; NaN for None.

    Raises:
        ValueError: the value is no number from 0 to 1.
    """
    return _number(value, "kw.worth", math.nan, 1.0)


def first_items(
    starts: list[int], ends: list[int], stated: list[bytes], plain: Callable[[bytes], Attributes]
) -> list[int]:
    """Ends of spans: of those that state one, the first item, which a plan is made for and judged by.

    Args:
        starts: starts of the spans, nanoseconds since 1970.
        ends: ends of the spans, nanoseconds since 1970.
        stated: undecoded attributes of each span.
        plain: decodes the attributes of one span.

    Raises:
        ValueError: a time to the first item is out of range.
    """
    found = list(ends)
    for place, raw in enumerate(stated):
        if raw.find(FIRST_ITEM) >= 0:
            took_ms = _number(plain(raw).get("kw.first_item_ms"), "kw.first_item_ms", math.inf, MAX_BUSY_MS)
            if took_ms < math.inf:
                found[place] = min(ends[place], starts[place] + round(took_ms * 1e6))
    return found


def _text(attributes: Attributes, key: str) -> str | None:
    value = attributes.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{key} must be text, not {value!r}")


def _choice(attributes: Attributes, key: str, known: Mapping[str, int]) -> int:
    value = attributes.get(key)
    number = known.get(value) if isinstance(value, str) else None
    if number is None:
        raise ValueError(f"{key} must be one of {', '.join(known)}, not {value!r}")
    return number


def _whole(attributes: Attributes, key: str, least: int, most: int) -> int:
    value = attributes.get(key, least)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} must be a whole number from {least} to {most}, not {value!r}")
    return value


def _number(value: object, key: str, missing: float, most: float) -> float:
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{key} must be a number from 0 to {most:g}, not {value!r}")
    return float(value)


def _share(value: object) -> float:
    share = _number(value, "kw.sample.share", 1.0, 1.0)
    if not share:
        raise ValueError("kw.sample.share must be above 0")
    return share


def _marks(attributes: Attributes) -> int:
    marks = 0
    if attributes.get("kw.control") is True:
        marks |= c.CONTROL
    if attributes.get("kw.partial") is True:
        marks |= c.PARTIAL
    if attributes.get("kw.idempotent") is False:
        marks |= c.NOT_IDEMPOTENT
    if attributes.get("kw.catch_up") is True:
        marks |= c.CATCH_UP
    return marks
