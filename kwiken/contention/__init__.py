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
from kwiken.contention.measured_stage import (
    MeasuredRun,
    StageProbe,
    appended,
    measured_runs,
    without_workloads,
    workload_entry,
)
from kwiken.contention.ramp import Ramp, Scores, Window
from kwiken.contention.simulated_machine import SimulatedResource, simulate_ramp
from kwiken.contention.sources import PRIVATE_SOURCES, operations_of
from kwiken.contention.stage_plan import (
    Setting,
    StagePlan,
    class_speeds,
    plan_stage,
    setting_text,
    whole_plan,
)

__all__ = [
    "CALIBRATION_LEVELS",
    "PRIVATE_SOURCES",
    "Calibration",
    "Crosstalk",
    "MachineProbe",
    "MeasuredRun",
    "ProbeError",
    "Ramp",
    "Scores",
    "Setting",
    "SimulatedResource",
    "Speed",
    "StagePlan",
    "StageProbe",
    "Window",
    "appended",
    "calibrate",
    "class_speeds",
    "corrected_drives",
    "loss",
    "measured_runs",
    "operations_of",
    "plan_stage",
    "probe_from_json",
    "probe_to_json",
    "setting_text",
    "simulate_ramp",
    "whole_plan",
    "without_workloads",
    "workload_entry",
]
