"""Contention: calibration of kernels, ramps beside a workload, and crosstalk. Pure; measurements come in."""

from __future__ import annotations

from kwiken.allocator.contention.calibration import (
    CALIBRATION_LEVELS as CALIBRATION_LEVELS,
    Calibration as Calibration,
    Speed as Speed,
    calibrate as calibrate,
    corrected_drives as corrected_drives,
)
from kwiken.allocator.contention.crosstalk import Crosstalk as Crosstalk, loss as loss
from kwiken.allocator.contention.errors import ProbeError as ProbeError
from kwiken.allocator.contention.machine_probe import (
    MachineProbe as MachineProbe,
    probe_from_json as probe_from_json,
    probe_to_json as probe_to_json,
)
from kwiken.allocator.contention.measured_stage import (
    MeasuredRun as MeasuredRun,
    StageProbe as StageProbe,
    appended as appended,
    measured_runs as measured_runs,
    variation_of as variation_of,
    without_workloads as without_workloads,
    workload_entry as workload_entry,
)
from kwiken.allocator.contention.quality import (
    MAX_SCORE as MAX_SCORE,
    Shortfall as Shortfall,
    encode as encode,
    falling_order as falling_order,
    largest_code as largest_code,
    match_quality as match_quality,
    offered_quality as offered_quality,
    pressure_scores as pressure_scores,
    quality_share as quality_share,
)
from kwiken.allocator.contention.ramp import Ramp as Ramp, RampWindow as RampWindow, Scores as Scores
from kwiken.allocator.contention.simulated_machine import (
    SimulatedResource as SimulatedResource,
    simulate_ramp as simulate_ramp,
)
from kwiken.allocator.contention.sources import (
    PRIVATE_SOURCES as PRIVATE_SOURCES,
    operations_of as operations_of,
)
from kwiken.allocator.contention.stage_plan import (
    ProbePlan as ProbePlan,
    ProbeSetting as ProbeSetting,
    class_speeds as class_speeds,
    plan_stage as plan_stage,
    setting_text as setting_text,
    whole_plan as whole_plan,
)
