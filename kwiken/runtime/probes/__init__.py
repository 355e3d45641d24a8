"""Probes: contention kernels and their measurements on this machine, and sandboxed profiling of stages.

Names load on first use: programs of this package run as processes of their own, and need no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.probes.build import build_kernels
    from kwiken.runtime.probes.facts import machine_facts
    from kwiken.runtime.probes.machine import MachineProber, ProbeSettings
    from kwiken.runtime.probes.recorded import RECORDED_HISTORY
    from kwiken.runtime.probes.stage import ROUNDS, StageProber, StageTarget

__all__ = [
    "RECORDED_HISTORY",
    "ROUNDS",
    "MachineProber",
    "ProbeSettings",
    "StageProber",
    "StageTarget",
    "build_kernels",
    "machine_facts",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.probes.build": ("build_kernels",),
        "kwiken.runtime.probes.facts": ("machine_facts",),
        "kwiken.runtime.probes.machine": ("MachineProber", "ProbeSettings"),
        "kwiken.runtime.probes.recorded": ("RECORDED_HISTORY",),
        "kwiken.runtime.probes.stage": ("ROUNDS", "StageProber", "StageTarget"),
    },
)
