"""Stop rule of fan-outs: Kwiken's dynamic rule (Kwiken section 5.3).

Under every rule a query ends when its last responder answers, or at the rule's stop if that comes first. No
rule stops before the first answer, because an answer without any part is no answer. In the formulas `t_(k)`
is the time of the k-th of n answers. Rules are tuned in `kwiken.tail.partial.tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.tail.partial.responders import Responders


class Rule(Protocol):
    """Stop rule: decides when each query stops waiting."""

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): time at which each query stops waiting, milliseconds from its start; may be infinite."""


@dataclass(frozen=True)
class StopRule:
    """Kwiken's dynamic rule: stop `wait_ms` after a share `progress` answered, or at `cutoff_ms`.

    Either condition suffices. Quick queries stop by progress, with a delay; the cut-off bounds the slow ones
    (Kwiken section 5.3).

    Attributes:
        cutoff_ms: longest wait from the query's start, milliseconds; infinite for none.
        wait_ms: longest wait after the share `progress` has answered, milliseconds; infinite for none.
        progress: share of the responders that must answer before `wait_ms` counts, above 0 to 1.
    """

    cutoff_ms: float
    wait_ms: float
    progress: float

    def stop_ms(self, responders: Responders) -> Floats:
        """(q,): `min(cutoff, t_(ceil(progress n)) + wait)`."""
        reached = responders.order_statistic(responders.rank_at(self.progress))
        return np.minimum(self.cutoff_ms, reached + self.wait_ms)


def apply_rule(rule: Rule, responders: Responders) -> tuple[Floats, Floats]:
    """(q,) latency in ms and (q,) utility lost, a share, of queries under a rule."""
    latency = np.clip(rule.stop_ms(responders), responders.first_ms, responders.last_ms)
    return latency, responders.loss(latency)
