"""Utility of partial answers, and the value of each shard in a whole answer."""

from __future__ import annotations

import logging
import math
import random
from typing import Any, Final

from kwiken.model.service.stage import Partial, Stage
from kwiken.runtime.base.log_events import Event, about

logger = logging.getLogger(__name__)

MEAN_EVALUATIONS: Final = 256  # mean number of evaluations that judging one fan-out may take
# Shards of the widest fan-out that is judged by leaving out one shard after another.
MAX_JUDGED_SHARDS: Final = 64


def utility_of(stage: Stage, values: tuple[Any, ...]) -> float:
    """Utility of an answer with missing shards: the stage's own measure, else the share of shards present."""
    share = sum(value is not None for value in values) / len(values)
    if stage.utility is None:
        return share
    try:
        return _unit(stage.utility(Partial(values, share)))
    except Exception:
        logger.exception(
            "stage %r: its utility failed; the share of shards present counts instead",
            stage.name,
            extra=about(Event.UTILITY_FAILED),
        )
        return share


def worths_of(stage: Stage, values: tuple[Any, ...], rng: random.Random) -> list[float] | None:
    """Value of each shard's answer in a whole answer: shares of 1, or all 0 if no shard had any value.

    Measured by the stage's `worth`, else by how far its `utility` falls without the shard (its marginal
    value: for a utility that asks for the top hit, 1 or 0). Of wide fan-outs only a sample is judged, so that
    judging takes at most `MEAN_EVALUATIONS` evaluations on average.

    Returns:
        The values, or None: the stage has neither measure, this fan-out is not in the sample, or the measure
        failed.
    """
    width = len(values)
    if stage.worth is None and (stage.utility is None or width > MAX_JUDGED_SHARDS):
        return None
    looks = width if stage.worth is not None else width * width
    if looks > MEAN_EVALUATIONS and rng.random() * looks > MEAN_EVALUATIONS:
        return None
    try:
        return _shares(_judge(stage, values), width)
    except Exception:
        logger.exception(
            "stage %r: the worth of its shards' answers could not be judged",
            stage.name,
            extra=about(Event.UTILITY_FAILED),
        )
        return None


def _judge(stage: Stage, values: tuple[Any, ...]) -> list[float]:
    whole = Partial(values)
    if stage.worth is not None:
        return [float(worth) for worth in stage.worth(whole)]
    utility = stage.utility
    assert utility is not None
    most = _unit(utility(whole))
    share = 1 - 1 / len(values)
    return [
        max(0.0, most - _unit(utility(Partial((*values[:shard], None, *values[shard + 1 :]), share))))
        for shard in range(len(values))
    ]


def _shares(worths: list[float], width: int) -> list[float]:
    if len(worths) != width:
        raise ValueError(f"its worth has {len(worths)} numbers for {width} shards")
    if not all(math.isfinite(worth) and worth >= 0 for worth in worths):
        raise ValueError(f"a shard's worth is a finite number from 0, not one of {worths[:8]}")
    total = math.fsum(worths)
    return [worth / total for worth in worths] if total else worths


def _unit(utility: Any) -> float:
    """Clamp a utility to 0 to 1."""
    value = float(utility)
    if math.isnan(value):
        raise ValueError("a utility must be a number from 0 to 1, not NaN")
    return min(1.0, max(0.0, value))
