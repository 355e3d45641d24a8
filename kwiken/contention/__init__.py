"""Contention: calibration of kernels, ramps beside a workload, and crosstalk. Pure; measurements come in."""

from __future__ import annotations

from kwiken.contention.calibration import (
    CALIBRATION_LEVELS,
    Calibration,
    Speed,
    calibrate,
    corrected_drives,
)
from kwiken.contention.crosstalk import Crosstalk, loss
from kwiken.contention.errors import ProbeError
from kwiken.contention.machine_probe import MachineProbe, probe_from_json, probe_to_json
from kwiken.contention.ramp import Ramp, Scores, Step, Window
from kwiken.contention.sources import PRIVATE_SOURCES, operations_of

__all__ = [
    "CALIBRATION_LEVELS",
    "PRIVATE_SOURCES",
    "Calibration",
    "Crosstalk",
    "MachineProbe",
    "ProbeError",
    "Ramp",
    "Scores",
    "Speed",
    "Step",
    "Window",
    "calibrate",
    "corrected_drives",
    "loss",
    "operations_of",
    "probe_from_json",
    "probe_to_json",
]
