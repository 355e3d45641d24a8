"""Traces of a world, as its tracers write them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from tests.support.otel.field import filed
from tests.support.otel.promises.worlds import World
from tests.support.otel.span_trees import MS, T0, Span

LINK_MS: Final = 0.2  # between the client's span and the server's, at either end


def recorded(world: World, folder: Path) -> Path:
    """Write the traces of a world; the file's path."""
    rng = np.random.default_rng([world.seed, 0])
    sent = world.requests(rng, world.count)
    pod = rng.integers(world.pods, size=world.count)
    begun = sent.at_ms + world.own_ms
    took = world.calls(rng, begun, pod, sent.weight)
    spans: list[Span] = []

    def clock(at_ms: float) -> int:
        return T0 + (int(at_ms) * MS if world.whole_ms else round(at_ms * MS))

    for i in range(world.count):
        at, call, end = float(sent.at_ms[i]), float(begun[i]), float(begun[i] + took[i])
        skew = world.skew_ms[int(pod[i])]
        named = {name: values[i] for name, values in sent.named.items()}
        http = {"http.route": "/page", "http.request.method": "GET"}
        root = clock(at), clock(end + world.own_ms)
        spans += [
            Span(i + 1, 1, 0, "door", "GET /page", *root, kind="server", attributes=http | named),
            Span(i + 1, 2, 1, "door", "GET", clock(call), clock(end), kind="client"),
            Span(
                i + 1,
                3,
                2,
                "shelf",
                "GET /shelf",
                T0 + round((call + LINK_MS + skew) * MS),
                T0 + round((end - LINK_MS + skew) * MS),
                kind="server",
                attributes={world.instance: f"shelf-{int(pod[i])}"},
            ),
        ]
    return filed(folder, spans, world.form)
