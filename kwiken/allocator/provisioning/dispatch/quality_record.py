"""Record of the quality that rented nodes of each kind offered (HCloud section 3.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np

HISTORY: Final = 500  # observations of a kind that are kept
KEPT_S: Final = 1800.0  # age up to which they count
COVERAGE: Final = 0.90
PRIOR_WEIGHT: Final = 10  # observations that the prior counts as


class QualityRecord:
    """Qualities that were observed, by kind of node.

    Args:
        priors: quality that is assumed before there are observations, a share from 0 to 1, by kind.
    """

    def __init__(self, priors: Mapping[int, float]) -> None:
        self._seen: dict[int, deque[tuple[float, float]]] = {
            kind: deque([(0.0, prior)] * PRIOR_WEIGHT, HISTORY) for kind, prior in priors.items()
        }
        self._known: dict[tuple[int, float], float] = {}

    def observe(self, kind: int, quality: float, now_s: float) -> None:
        """Note a quality.

        Args:
            quality: what a node of this kind offered, a share from 0 to 1.
            now_s: moment, seconds.
        """
        seen = self._seen[kind]
        seen.append((now_s, quality))
        while len(seen) > 1 and seen[0][0] < now_s - KEPT_S:
            seen.popleft()
        self._known = {place: value for place, value in self._known.items() if place[0] != kind}

    def offered(self, kind: int, coverage: float = COVERAGE) -> float:
        """Quality that a share of the nodes of a kind met or exceeded.

        Args:
            coverage: share of the nodes, 0 to 1; more of it is a lower quality.
        """
        if (kind, coverage) not in self._known:
            values = [quality for _, quality in self._seen[kind]]
            self._known[kind, coverage] = float(np.quantile(values, 1 - coverage, method="inverted_cdf"))
        return self._known[kind, coverage]
