"""Metrics of several processes of one kind: each one's points, told apart by a label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kwiken.otel.metrics.model import Distribution, Family, Point

GATEWAY: Final = "kw.gateway"


def families_to_bytes(families: Iterable[Family]) -> bytes:
    """Families for another process, without exemplars, whose trace ids are longer than any number there."""
    return msgspec.msgpack.encode(
        [
            Family(
                each.metric,
                tuple(
                    Point(labels, value._replace(exemplars=(), counts=list(value.counts)))
                    if isinstance(value, Distribution)
                    else Point(labels, value)
                    for labels, value in each.points
                ),
            )
            for each in families
        ]
    )


def families_from_bytes(data: bytes) -> list[Family]:
    """Families of another process.

    Raises:
        MsgspecError: the data are not families.
    """
    try:
        return msgspec.msgpack.decode(data, type=list[Family])
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(f"not families of metrics: {error}") from error


def by_gateway(families: Mapping[str, Iterable[Family]]) -> list[Family]:
    """Families of several gateways as one, with the gateway as a further label of each point."""
    found: dict[str, Family] = {}
    for name, those in families.items():
        for metric, points in those:
            before = found.get(metric.name)
            wider = (
                before.metric
                if before is not None
                else msgspec.structs.replace(metric, labels=(*metric.labels, GATEWAY))
            )
            own = tuple(Point((*labels, name), value) for labels, value in points)
            found[metric.name] = Family(wider, (*(before.points if before is not None else ()), *own))
    return list(found.values())
