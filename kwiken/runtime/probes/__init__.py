"""Probes: contention kernels and their measurements on this machine, and sandboxed profiling of stages."""

from __future__ import annotations

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
