"""Simulated machine on which ramps can be checked: performance and kernel speed by level, with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.contention.ramp import QOS, Ramp, RampWindow, Scores

CAPACITY = 1.0  # of every resource


@dataclass(frozen=True)
class SimulatedResource:
    """One shared resource and a workload on it (iBench, section 3).

    Attributes:
        demand: share of the resource that the workload uses, 0 to 1.
        headroom: total use up to which the workload does not slow down.
        sensitivity: slowdown for each unit of use beyond that; 0 for a workload that does not care.
        noise: standard deviation of each measurement, relative.
    """

    demand: float
    headroom: float
    sensitivity: float
    noise: float = 0.01

    def performance(self, level: float) -> float:
        """Performance of the workload beside a kernel, relative to an idle machine; without noise."""
        return 1 / (1 + self.sensitivity * max(0.0, self.demand + level - self.headroom))

    def kernel_speed(self, level: float, *, beside: bool) -> float:
        """Speed of the kernel, relative to an idle machine; resources are shared in proportion to demand."""
        return min(1.0, CAPACITY / (level + (self.demand if beside else 0.0))) if level > 0 else 1.0

    @property
    def tolerated(self) -> float:
        """Level that costs the workload 5% of its performance, at most 1."""
        if not self.sensitivity:
            return 1.0
        alone = 1 / self.performance(0.0)
        over = (alone / QOS - 1) / self.sensitivity
        return float(np.clip(self.headroom - self.demand + over, 0.0, 1.0))

    @property
    def caused(self) -> float:
        """1 less the level at which the workload costs the kernel 5% of its speed, at least 0."""
        return float(np.clip(1 - (CAPACITY / QOS - self.demand), 0.0, 1.0))


def simulate_ramp(resource: SimulatedResource, ramp: Ramp, rng: np.random.Generator) -> tuple[Scores, int]:
    """Run a ramp on the simulated machine.

    Returns:
        The scores and the number of windows.
    """
    windows = 0
    while (step := ramp.next) is not None:
        windows += 1
        scale = np.exp(rng.normal(0.0, resource.noise, 2))
        both = step.window is RampWindow.BOTH
        performance = resource.performance(step.level) * float(scale[0])
        speed = resource.kernel_speed(step.level, beside=both) * float(scale[1])
        ramp.record(
            None if step.window is RampWindow.KERNEL else performance,
            None if step.window is RampWindow.WORKLOAD else speed,
        )
    return ramp.scores, windows
