"""Promises of an advice beside the true effect of its settings, in worlds that were not made by its model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from kwiken.otel.fit.fit import fit_profiles
from kwiken.tail.advice.composition import advise
from kwiken.tail.advice.contents import RequestKind
from tests.support.otel.promises.recorded import recorded
from tests.support.otel.promises.worlds import KINDS, SIBLINGS, Kind, World, world

NO_CUT, SOME_CUT = 0.05, 0.2  # true cuts by which cases are told apart
NEAR = 0.15  # of a true cut, in points of p99


class Promise(NamedTuple):
    """What was promised without a condition, and the true cut of the settings advised with it."""

    told: float | None
    true: float


def promised(case: World, folder: Path) -> Promise:
    profile = fit_profiles([recorded(case, folder)]).profiles[0]
    kind = RequestKind(name="page", requests=profile.requests, p50_ms=1.0, p99_ms=2.0)
    found = advise(profile, kind=kind)[0]
    if found.doubt is not None or found.judgement is None or not found.settings or found.unshown:
        return Promise(None, 0.0)
    setting = found.settings[0]
    told = found.judgement.arm("plan").cuts["p99_ms"].share
    return Promise(told, case.true_cut(setting.after_ms, setting.probability))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_promises_hold_in_each_kind_of_world(kind: Kind, tmp_path: Path) -> None:
    cases = [world(kind, sibling) for sibling in range(SIBLINGS)]
    without = [case for case in cases if case.reference_cut < NO_CUT]
    worthy = [case for case in cases if case.reference_cut >= SOME_CUT]
    assert without or worthy
    if without:
        found = [promised(case, tmp_path) for case in without]
        quiet = sum(each.told is None or each.told <= SOME_CUT for each in found)
        assert quiet >= 0.9 * len(without), found
    if worthy:
        found = [promised(case, tmp_path) for case in worthy]
        near = sum(each.told is not None and abs(each.told - each.true) <= NEAR for each in found)
        assert near >= 0.8 * len(worthy), found
