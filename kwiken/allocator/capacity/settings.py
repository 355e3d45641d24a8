"""Settings of a sizing, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kwiken.allocator.capacity.supply import StageNeed
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.profile.cost_models import CostModel
from kwiken.tail.queueing.load.decompose import QueueSettings

MAX_REISSUE: Final = 0.05  # copies, as a share of all work, that a sizing may plan by default
MAX_SIZED_RATE_PER_S: Final = 1e9  # requests a second that sizes are sought for


@dataclass(frozen=True, kw_only=True)
class SizeSettings:
    """What a service is sized for, and with what.

    Attributes:
        target_p99_ms: p99 of whole requests to reach, milliseconds.
        rate_per_s: requests a second at which it has to be reached.
        created: RFC 3339 time to note in the plan.
        cluster: nodes; None for cores of one kind, each at a cost of 1.
        needs: what replicas need, by stage; defaults for the others.
        max_reissue: most copies, as a share of all work, 0 to 1.
        cost: cost model by which copies draw on that budget, as `costs` takes it.
        queues: what is known of replicas and queues in the recording beside the profile.
        copy_correlation: correlation of copies with their calls, as `simulate` takes it.
        frontier: whether cheapest sizes are found for other targets too.
        seed: seed of all draws.

    Raises:
        InputError: for a target or rate that is not a finite number above 0, a rate that is too high, or a
            budget that is no share.
    """

    target_p99_ms: float
    rate_per_s: float
    created: str
    cluster: Cluster | None = None
    needs: Mapping[str, StageNeed] = field(default_factory=dict)
    max_reissue: float = MAX_REISSUE
    cost: CostModel | None = None
    queues: QueueSettings = field(default_factory=QueueSettings)
    copy_correlation: float | None = None
    frontier: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("target_p99_ms", "rate_per_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:  # NaN fails too
                raise InputError(f"must be a finite number above 0, not {value}", where=name)
        if self.rate_per_s > MAX_SIZED_RATE_PER_S:
            raise InputError(
                f"must be at most {MAX_SIZED_RATE_PER_S:g} requests a second, not {self.rate_per_s:g}",
                where="rate",
            )
        if not 0 <= self.max_reissue <= 1:
            raise InputError(f"must be a share from 0 to 1, not {self.max_reissue}", where="max_reissue")
