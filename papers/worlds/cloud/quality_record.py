"""Record of the quality that rented nodes of each kind offered (HCloud section 3.3)."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Mapping
from typing import Final

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
        self._seen = {kind: deque([(0.0, prior)] * PRIOR_WEIGHT) for kind, prior in priors.items()}
        self._sorted = {kind: [prior] * PRIOR_WEIGHT for kind, prior in priors.items()}

    def observe(self, kind: int, quality: float, now_s: float) -> None:
        """Note a quality.

        Args:
            quality: what a node of this kind offered, a share from 0 to 1.
            now_s: moment, seconds.
        """
        seen, ordered = self._seen[kind], self._sorted[kind]
        seen.append((now_s, quality))
        bisect.insort(ordered, quality)
        while len(seen) > 1 and (seen[0][0] < now_s - KEPT_S or len(seen) > HISTORY):
            _, old = seen.popleft()
            del ordered[bisect.bisect_left(ordered, old)]

    def offered(self, kind: int, coverage: float = COVERAGE) -> float:
        """Quality that a share of the nodes of a kind met or exceeded.

        Args:
            coverage: share of the nodes, 0 to 1; more of it is a lower quality.
        """
        ordered = self._sorted[kind]
        worse = math.ceil(round((1 - coverage) * len(ordered), 9))
        return ordered[max(0, worse - 1)]
