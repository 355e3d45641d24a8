"""Trial of one synthetic DAG: requests to learn from, requests to judge by, and replay of policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import end_to_end
from kwiken.tail.apportion.sum_of_variances import Allocation
from kwiken.tail.curves.curve import Curve, reissue_curve
from papers.kwiken.late_requests.global_reissue import GlobalReissue, run_global_reissue
from papers.worlds.populations.services import StageDistribution

Sample = dict[str, Floats]


@dataclass(frozen=True)
class DagTrial:
    """A DAG with recorded requests of two disjoint periods.

    Attributes:
        stages: stages, parents before children.
        train: by stage: (n,) latencies to learn from, milliseconds.
        test: by stage: (n,) latencies to judge by, milliseconds.
        copies: by stage: (n,) latencies of copies in the judged period, drawn independently, milliseconds.
        curves: variance-response curves learned from `train`.
        costs: share of each stage's mean latency in the sum, which the source charges as its cost.
    """

    stages: tuple[StageDistribution, ...]
    train: Sample
    test: Sample
    copies: Sample
    curves: Mapping[str, Curve]
    costs: Mapping[str, float]

    @classmethod
    def of(cls, stages: tuple[StageDistribution, ...], requests: int, rng: np.random.Generator) -> DagTrial:
        """Draw a trial with a number of requests in each period."""
        train, test, copies = ({stage.name: stage.draw(rng, requests) for stage in stages} for _ in range(3))
        means = {name: float(values.mean()) for name, values in train.items()}
        total = math.fsum(means.values())
        return cls(
            stages=stages,
            train=train,
            test=test,
            copies=copies,
            curves={name: reissue_curve(values, policies=("single",)) for name, values in train.items()},
            costs={name: mean / total for name, mean in means.items()},
        )

    def time_out(self, name: str, fraction: float) -> float:
        """Local time-out, ms, at which a stage reissues a fraction of training calls; infinite for none."""
        # The source reissues every late call: it knows no probability of a reissue.
        policy = self.curves[name].policy(fraction, coin=1.0)
        return math.inf if policy is None else policy.after_ms

    def simulate(self, allocation: Allocation, *, on_train: bool = False) -> tuple[Floats, float]:
        """(n,) latency of the requests under an allocation, ms, and the measured spend, a cost share."""
        after = {name: self.time_out(name, fraction) for name, fraction in allocation.fractions.items()}
        return self.play_time_outs(after, on_train=on_train)

    def play_time_outs(
        self, after_ms: Mapping[str, float], *, on_train: bool = False
    ) -> tuple[Floats, float]:
        """Latency and spend under given time-outs by stage; see `simulate`."""
        policy = GlobalReissue(after_ms, frozenset(), math.inf)
        primary = self.train if on_train else self.test
        outcome = run_global_reissue(self.stages, primary, self.copies, policy, self.costs)
        return outcome.latency_ms, outcome.spent

    def latency_ms(self, *, on_train: bool = False) -> Floats:
        """(n,) latency of the requests without reissues, milliseconds."""
        return end_to_end(self.stages, self.train if on_train else self.test)
