"""History of a gateway's status: one sample a second for some minutes, and the plans that were in force.

All samples have their place from the start: as documents they took a MiB or so, by which a gateway grew in
its first minutes. Pure: statuses and times are handed in.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any, Final

MAX_SAMPLES: Final = 300  # five minutes at one sample a second
MAX_PLANS: Final = 20
RECENT: Final = ("rate_per_s", "p50_ms", "p99_ms")
COUNTS: Final = ("requests", "failed", "partial", "shed", "reissues", "retries")
LEVERS: Final = ("ledger", "catch_up", "utility")
# Totals of a lever, from which the page takes the spend of any interval, and the shares that may be spent.
ACCOUNT: Final = ("work", "spent", "denied", "fraction", "peak", "horizon_share")
WHOLE: Final = ("denied", "inflight")  # fields of a lever and of a stage that are whole numbers


class History:
    """Samples of a status, each numbered, and changes of the plan.

    Args:
        stages: names of the stages, whose figures every status has.

    Attributes:
        plans: plans in force, oldest first: `digest`, None for none, and `since_s`, seconds since 1970.
    """

    def __init__(self, stages: Sequence[str]) -> None:
        self._stages = tuple(stages)
        # Number, time and load, then the figures in the order of `add`.
        self._width = (
            3 + len(RECENT) + len(COUNTS) + len(LEVERS) * len(ACCOUNT) + len(self._stages) * (len(RECENT) + 1)
        )
        # A ring of rows. A number that is not known is a NaN.
        self._cells = array("d", bytes(MAX_SAMPLES * self._width * array("d").itemsize))
        self._added = 0
        self._number = 0
        self.plans: deque[dict[str, Any]] = deque(maxlen=MAX_PLANS)

    def add(self, status: Mapping[str, Any], at_s: float) -> None:
        """Keep what the page draws over time.

        Args:
            at_s: time of the status, seconds since 1970.
        """
        # The second of the sample, so that those of several gateways are told to be of one moment.
        self._number = max(self._number + 1, int(at_s))
        row = [self._number, round(at_s, 3), status["load"], *_of(status["recent"], RECENT)]
        row += _of(status, COUNTS)
        for lever in LEVERS:
            row += _of(status[lever], ACCOUNT)
        for name in self._stages:
            stage = status["stages"][name]
            row += _of(stage["recent"], RECENT)
            row.append(sum(replica["inflight"] for replica in stage["replicas"]))
        start = self._added % MAX_SAMPLES * self._width
        self._cells[start : start + self._width] = array("d", row)
        self._added += 1
        if not self.plans or self.plans[-1]["digest"] != status["plan"]:
            self.plans.append({"digest": status["plan"], "since_s": round(at_s, 3)})

    def after(self, number: int) -> list[dict[str, Any]]:
        """Samples with a higher number, oldest first."""
        found = []
        for place in range(max(0, self._added - MAX_SAMPLES), self._added):
            start = place % MAX_SAMPLES * self._width
            if self._cells[start] > number:
                found.append(self._sample(iter(self._cells[start : start + self._width])))
        return found

    def _sample(self, row: Iterator[float]) -> dict[str, Any]:
        return {
            "number": int(next(row)),
            "at_s": next(row),
            "load": next(row),
            **_named(RECENT, row),
            "counts": {name: int(next(row)) for name in COUNTS},
            "levers": {lever: _named(ACCOUNT, row) for lever in LEVERS},
            "stages": {name: _named((*RECENT, "inflight"), row) for name in self._stages},
        }


def _of(figures: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    return [nan if (value := figures[name]) is None else value for name in names]


def _named(names: Sequence[str], row: Iterator[float]) -> dict[str, float | None]:
    """The next values of a row by their names."""
    return {
        name: None if isnan(value := next(row)) else int(value) if name in WHOLE else value for name in names
    }
