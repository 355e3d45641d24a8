"""Range told for a run beside the p99 that came, over live runs whose plans, profiles and results are kept.

Each arm's plan is replayed on the profile that it was made from, corrected by the plan that was tried before,
and gives a range for as many requests as the arm had. The rule of the range and its seed stood before the
runs were looked at; all folders and arms count. A range should hold 85% of what came, and be no wider than
a ratio of 2.4 in the median of arms with 400 to 800 requests.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Row
from kwiken.model.plan.plan import Correction, Plan
from kwiken.model.profile.codec import profile_from_json
from kwiken.tail.judging.tried_plan import corrected_expectation
from kwiken.tail.simulation.expectation import expect
from kwiken.tail.simulation.run_range import run_range

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "forecast"
SEED = 0
MIN_COVERED, MAX_RATIO = 0.85, 2.4
ABOUT_600 = (400, 800)  # requests of an arm


@dataclass(frozen=True)
class RangeTold:
    """Range told for an arm's p99, beside what came.

    Attributes:
        name: folder and arm.
        requests: number of requests of the arm.
        low_ms: lower end of the range, milliseconds.
        high_ms: upper end of the range, milliseconds.
        came_ms: p99 of the arm, milliseconds.
    """

    name: str
    requests: int
    low_ms: float
    high_ms: float
    came_ms: float

    @property
    def held(self) -> bool:
        """Whether what came lies in the range."""
        return self.low_ms <= self.came_ms <= self.high_ms

    @property
    def ratio(self) -> float:
        """Width of the range: its upper end over its lower one."""
        return self.high_ms / self.low_ms


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir()) if FOLDER.is_dir() else []
    told = [each for folder in folders[: 2 if quick else None] for each in ranges_of(folder)]
    if not told:
        raise RuntimeError(f"no recorded runs in {FOLDER}")
    for each in told:
        mark = "" if each.held else "  outside"
        print(
            f"{each.name}: n {each.requests}, told {each.low_ms:.0f} to {each.high_ms:.0f} ms, "
            f"came {each.came_ms:.0f}{mark}"
        )
    covered = sum(each.held for each in told) / len(told)
    usual = [each.ratio for each in told if ABOUT_600[0] <= each.requests <= ABOUT_600[1]]
    ratios = [each.ratio for each in told]
    return [
        Row(
            name=f"p99s that came within the range told, of {len(told)} arms",
            ours=100 * covered,
            unit="%",
            target=100 * MIN_COVERED,
            met=covered >= MIN_COVERED,
        ),
        Row(
            name=f"upper end of the range over its lower one, {len(usual)} arms of about 600 requests",
            ours=statistics.median(usual),
            unit="ratio",
            target=MAX_RATIO,
            spread=(min(usual), max(usual)),
        ),
        Row(
            name="upper end of the range over its lower one, all arms",
            ours=statistics.median(ratios),
            unit="ratio",
            spread=(min(ratios), max(ratios)),
        ),
    ]


def ranges_of(folder: Path) -> list[RangeTold]:
    """Ranges of all arms with a plan of one recorded run.

    Args:
        folder: folder with `profile.json`, `plans.json`, `meta.json` and `result.json`.
    """
    profile = profile_from_json((folder / "profile.json").read_bytes())
    plans: dict[str, Any] = msgspec.json.decode((folder / "plans.json").read_bytes())
    meta = msgspec.json.decode((folder / "meta.json").read_bytes())
    correction = msgspec.convert(meta["correction"], Correction)
    found = []
    for arm in msgspec.json.decode((folder / "result.json").read_bytes()):
        if arm["arm"] not in plans:
            continue
        plan = Plan.from_json(msgspec.json.encode(plans[arm["arm"]]))
        simulation, expected = expect(profile, plan, ledger=plan.ledger, seed=SEED)
        expected = corrected_expectation(expected, correction)
        ends = run_range(simulation.after_ms, expected, arm["n"], recorded=profile.requests, seed=SEED)
        assert ends is not None  # a plan was tried
        found.append(RangeTold(f"{folder.name} {arm['arm']}", arm["n"], *ends, arm["p99"]))
    return found
