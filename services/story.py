"""Example of an answer that streams: passages are retrieved, ranked, and told on word by word.

Run it with `kwiken up services/story.py:story`, and ask for events:
`curl -N -H 'Content-Type: application/json' -H 'Accept: text/event-stream' -d '"tail"' URL/v1/request`.
The last stage stands for a model server, with times as one was measured to have.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator

from msgspec import Struct

from kwiken import Partial, Reissue, Service

story = Service("story")

SHELVES = 3
WORDS = 40
# Medians and p99, milliseconds, of 1,000 requests to a model on two GPUs, 8 at once: "TP2, base" in
# https://github.com/vllm-project/vllm/pull/31826. Logarithms are drawn normally through both.
FIRST_TOKEN_MS = (27.44, 97.69)
BETWEEN_TOKENS_MS = (6.08, 18.73)
Z99 = 2.326  # of the standard normal distribution, the 99th percentile

draws = random.Random()  # noqa: S311 - no secrets


class Passage(Struct, frozen=True):
    """Text that was found, and how well it fits."""

    text: str
    score: float


async def drawn_wait(median_ms: float, p99_ms: float) -> None:
    """Wait as long as one token took."""
    await asyncio.sleep(draws.lognormvariate(math.log(median_ms), math.log(p99_ms / median_ms) / Z99) / 1e3)


@story.stage(fanout=SHELVES, replicas=2, idempotent=True)
async def retrieve(topic: str, *, shard: int) -> list[Passage]:
    """Find passages on one shelf."""
    return [Passage(f"{topic} of shelf {shard}, page {page}", 1 / (1 + page + shard)) for page in range(5)]


@story.stage(after=[retrieve], replicas=2, idempotent=True)
async def rerank(found: Partial[list[Passage]]) -> list[Passage]:
    """Keep the best passages of all shelves."""
    passages = [passage for shelf in found.present for passage in shelf]
    return sorted(passages, key=lambda passage: -passage.score)[:3]


@story.stage(after=[rerank], replicas=2, idempotent=True, reissue=Reissue(after_ms=FIRST_TOKEN_MS[1]))
async def generate(passages: list[Passage]) -> AsyncIterator[str]:
    """Tell what the passages say, one word after the other, as a model server does."""
    words = " ".join(passage.text for passage in passages).split()
    await drawn_wait(*FIRST_TOKEN_MS)
    for number in range(WORDS):
        if number:
            await drawn_wait(*BETWEEN_TOKENS_MS)
        yield words[number % len(words)]


story.check()
