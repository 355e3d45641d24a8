"""Probes: contention kernels and their measurements on this machine, and sandboxed profiling of stages."""

from __future__ import annotations

from kwiken.runtime.probes.build import build_kernels
from kwiken.runtime.probes.facts import MachineFacts, machine_facts
from kwiken.runtime.probes.machine import MachineProber, ProbeSettings

__all__ = ["MachineFacts", "MachineProber", "ProbeSettings", "build_kernels", "machine_facts"]
