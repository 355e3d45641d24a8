"""Stages whose callers hedge by themselves: present delay, and the effect of another delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from kwiken.model.latency import percentile
from kwiken.model.profile.profile import Profile
from kwiken.tail.advice.contents import HedgedAlready

SOONER: Final = 0.5  # of the present delay: the other delay, where no plan has one


def hedged_already(profile: Profile, planned: Mapping[str, float]) -> Iterator[HedgedAlready]:
    """Find stages whose callers send copies by themselves, in traces of other services than kwiken's.

    What another delay would do follows from the recorded calls: a copy that won would have answered sooner by
    the difference of the delays, and a call without a copy that lasts longer than the new delay would get one
    that takes as long as the median of the copies that won.

    Args:
        planned: delay of copies by stage in a plan, milliseconds.
    """
    if profile.origin is None:
        return
    for stage in profile.stages:
        if stage.pairs_ms is None or stage.pairs_cut is None or not len(stage.pairs_ms):
            continue
        calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
        lost = stage.censored[~np.isnan(stage.calls_ms)]
        after = float(np.median(stage.pairs_ms[:, 0] - stage.pairs_ms[:, 1]))
        step = HedgedAlready(
            stage=stage.name,
            after_ms=after,
            copies=len(stage.pairs_ms) / len(calls),
            p99_ms=percentile(calls, 99),
        )
        won = stage.pairs_ms[stage.pairs_cut[:, 0], 1]
        instead = min(planned.get(stage.name, SOONER * after), after)
        if not stage.reissuable or not len(won):
            yield step
            continue
        sooner = np.where(lost, calls - (after - instead), np.minimum(calls, instead + np.median(won)))
        yield HedgedAlready(
            stage=step.stage,
            after_ms=step.after_ms,
            copies=step.copies,
            p99_ms=step.p99_ms,
            instead_ms=instead,
            instead_copies=float((calls > instead).mean()),
            instead_p99_ms=percentile(np.where(calls > instead, sooner, calls), 99),
        )
