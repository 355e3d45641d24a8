"""MapReduce jobs by MRCute's formulas: stage times, tuples for a deadline, and rates learned from logs."""

from __future__ import annotations

from kwiken.batch.jobs.mapreduce.deadline_tuples import (
    ReservedTuple as ReservedTuple,
    candidates as candidates,
)
from kwiken.batch.jobs.mapreduce.formulas import (
    MapReduceJob as MapReduceJob,
    MapReduceProfile as MapReduceProfile,
    RackNetwork as RackNetwork,
    SlotsOfMachine as SlotsOfMachine,
    StageTimes as StageTimes,
    rack_times as rack_times,
    reserved_times as reserved_times,
    shuffle_over_racks as shuffle_over_racks,
)
from kwiken.batch.jobs.mapreduce.rates import TaskFlow as TaskFlow, fit_profile as fit_profile
from kwiken.batch.jobs.mapreduce.stages import critical_path as critical_path
