"""Answer quality: ranks of the wanted documents for judged queries."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from kwiken.model.service.service import Service
from kwiken.services.search.stages.types import Answer
from tests.support.services import local_answers

DEPTH = 10


class Judgement(Struct, frozen=True, forbid_unknown_fields=True):
    """Wanted result of a query: names, one of which must be among the first `top`; or no result at all."""

    want: list[str]
    top: Annotated[int, Meta(ge=1, le=DEPTH)]


Judgements = dict[str, dict[str, Judgement]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one query: rank of the first wanted document, from 1; None if it is not among ten."""

    query: str
    rank: int | None
    judgement: Judgement
    found: tuple[str, ...]

    @property
    def good(self) -> bool:
        """True if a wanted document is ranked as high as the judgement demands."""
        if not self.judgement.want:
            return not self.found
        return self.rank is not None and self.rank <= self.judgement.top


@dataclass(frozen=True, slots=True)
class Score:
    """Sums over one set of judgements; all from 0 to 1."""

    queries: int
    mrr: float
    first: float
    top3: float
    good: float


def judgements() -> Judgements:
    """The sets of judged queries."""
    file = Path(__file__).with_name("judgements.toml")
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Judgements)


def judge(service: Service, judged: dict[str, Judgement]) -> list[Verdict]:
    """The verdict on each query, in the order given."""
    return [_judge(service, query, judgement) for query, judgement in judged.items()]


def _judge(service: Service, query: str, judgement: Judgement) -> Verdict:
    answer: Answer = local_answers.answer(service, query)
    found = tuple(result.name for result in answer.results[:DEPTH])
    ranks = [at for at, name in enumerate(found, 1) if name in judgement.want]
    return Verdict(query, ranks[0] if ranks else None, judgement, found)


def score(verdicts: list[Verdict]) -> Score:
    """Means over the queries that should find something; `good` is over all."""
    asked = [verdict for verdict in verdicts if verdict.judgement.want]
    ranks = [verdict.rank for verdict in asked]
    return Score(
        queries=len(verdicts),
        mrr=sum(1 / rank for rank in ranks if rank) / len(asked),
        first=sum(rank == 1 for rank in ranks) / len(asked),
        top3=sum(rank is not None and rank <= 3 for rank in ranks) / len(asked),
        good=sum(verdict.good for verdict in verdicts) / len(verdicts),
    )
