"""History of a gateway's status: one sample a second for some minutes, and the plans that were in force.

Pure: statuses and times are handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

MAX_SAMPLES: Final = 300  # five minutes at one sample a second
MAX_PLANS: Final = 20
LEVERS: Final = ("ledger", "catch_up", "utility")


class History:
    """Samples of a status, each numbered, and changes of the plan.

    Attributes:
        plans: plans in force, oldest first: `digest`, None for none, and `since_s`, seconds since 1970.
    """

    def __init__(self) -> None:
        self._samples: deque[dict[str, Any]] = deque(maxlen=MAX_SAMPLES)
        self._number = 0
        self.plans: deque[dict[str, Any]] = deque(maxlen=MAX_PLANS)

    def add(self, status: Mapping[str, Any], at_s: float) -> None:
        """Keep what the page draws over time.

        Args:
            at_s: time of the status, seconds since 1970.
        """
        # The second of the sample, so that those of several gateways are told to be of one moment.
        self._number = max(self._number + 1, int(at_s))
        self._samples.append(
            {
                "number": self._number,
                "at_s": round(at_s, 3),
                **_rate_and_latency(status["recent"]),
                "counts": {
                    name: status[name]
                    for name in ("requests", "failed", "partial", "shed", "reissues", "retries")
                },
                "load": status["load"],
                "levers": {name: _account(status[name]) for name in LEVERS},
                "stages": {
                    name: {
                        **_rate_and_latency(stage["recent"]),
                        "inflight": sum(replica["inflight"] for replica in stage["replicas"]),
                    }
                    for name, stage in status["stages"].items()
                },
            }
        )
        if not self.plans or self.plans[-1]["digest"] != status["plan"]:
            self.plans.append({"digest": status["plan"], "since_s": round(at_s, 3)})

    def after(self, number: int) -> list[dict[str, Any]]:
        """Samples with a higher number, oldest first."""
        return [sample for sample in self._samples if sample["number"] > number]


def _rate_and_latency(recent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: recent[name] for name in ("rate_per_s", "p50_ms", "p99_ms")}


def _account(account: Mapping[str, Any]) -> dict[str, Any]:
    """Totals, from which the page takes the spend of any interval, and the shares that may be spent."""
    return {name: account[name] for name in ("work", "spent", "denied", "fraction", "peak", "horizon_share")}
