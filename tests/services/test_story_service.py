"""The example service that streams, in virtual time: its words, and its times beside the measured ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kwiken.testing.client import running
from kwiken.testing.virtual_loop import virtual_time
from services.story import BETWEEN_TOKENS_MS, FIRST_TOKEN_MS, WORDS, drawn_wait, draws, story


@virtual_time
async def test_all_words_arrive_in_order_one_by_one() -> None:
    draws.seed(1)
    async with running(story) as client:
        for _ in range(20):
            taken: list[list[Any]] = []

            async def deliver(items: list[Any], taken: list[list[Any]] = taken) -> None:
                taken.append(items)

            await client.ask("tail", deliver=deliver)
            words = [word for items in taken for word in items]
            assert (len(taken), len(words)) == (WORDS, WORDS)
            assert " ".join(words).startswith(
                "tail of shelf 0, page 0 tail of shelf 0, page 1 tail of shelf 1"
            )
        assert client.status()["stages"]["generate"]["streams"]
        firsts_ms = [
            (each.first_item_ns - each.start_ns) / 1e6 for each in client.requests if each.first_item_ns
        ]
        assert len(firsts_ms) == 20
        wholes_ms = [(each.end_ns - each.start_ns) / 1e6 for each in client.requests]
        assert min(wholes_ms) > max(firsts_ms), "people read long before the last word"


@pytest.mark.parametrize("measured", [FIRST_TOKEN_MS, BETWEEN_TOKENS_MS])
def test_drawn_times_have_the_measured_median_and_tail(measured: tuple[float, float]) -> None:
    waits: list[float] = []

    @virtual_time
    async def draw() -> None:
        async with running(story) as client:
            for _ in range(4000):
                before = client.now_ms
                await drawn_wait(*measured)
                waits.append(client.now_ms - before)

    draws.seed(2)
    draw()
    assert np.quantile(waits, (0.5, 0.99)) == pytest.approx(measured, rel=0.1)
