"""Probes: contention kernels and their measurements on this machine, and sandboxed profiling of stages.

Names load on first use: programs of this package run as processes of their own, and need no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.probes.build import build_kernels as build_kernels
    from kwiken.runtime.probes.facts import machine_facts as machine_facts
    from kwiken.runtime.probes.machine import MachineProber as MachineProber, ProbeSettings as ProbeSettings
    from kwiken.runtime.probes.recorded import RECORDED_HISTORY as RECORDED_HISTORY
    from kwiken.runtime.probes.stage import (
        ROUNDS as ROUNDS,
        StageProber as StageProber,
        StageTarget as StageTarget,
    )

__getattr__ = lazy_names(__name__, __file__)
