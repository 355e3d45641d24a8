"""Notes on partial answers: facts that a reader of a plan should know. The command line words them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class NoFanOut:
    """No stage is a fan-out, so no answer can be partial."""


@dataclass(frozen=True)
class LossTooSmall:
    """A fan-out gets no stop rule, as a single lost answer would exceed the loss that is allowed.

    Attributes:
        requests: number of its visits in the profile.
        loss: loss of utility that is allowed, as a share.
        least_loss: loss of utility by a single lost answer, as a share.
    """

    stage: str
    requests: int
    loss: float
    least_loss: float


@dataclass(frozen=True)
class NoStopRuleHelps:
    """A fan-out gets no stop rule, as none within the budget lowers its variance."""

    stage: str


@dataclass(frozen=True)
class TooFewVisits:
    """Fan-outs have too few visits to learn a stop rule from."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class UtilityKeptBack:
    """Stop rules are tuned for a part of the utility budget; the rest is the margin for later requests.

    Attributes:
        apportioned: share of the budget that the rules are tuned for, 0 to 1.
    """

    apportioned: float


@dataclass(frozen=True)
class LossesAddedUp:
    """Losses of several fan-outs are added up, as no utility weights say that their parts count alone."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class FewShards:
    """A fan-out has so few shards that the allowed loss is less than one shard in every request.

    Attributes:
        loss: loss of utility that is allowed, as a share.
    """

    stage: str
    shards: int
    loss: float


PartialNote: TypeAlias = (
    NoFanOut | LossTooSmall | NoStopRuleHelps | TooFewVisits | UtilityKeptBack | LossesAddedUp | FewShards
)
