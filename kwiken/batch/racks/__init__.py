"""Racks for batch jobs: how many each gets, which, and in which order."""

from __future__ import annotations

from kwiken.batch.racks.admission import (
    JudgedOffer as JudgedOffer,
    admission_tree as admission_tree,
    judge_offers as judge_offers,
    offers_in_time as offers_in_time,
)
from kwiken.batch.racks.bounds import online_bound_as_printed_s as online_bound_as_printed_s
from kwiken.batch.racks.data_places import place_data as place_data
from kwiken.batch.racks.document import (
    MAX_RACK_PLAN as MAX_RACK_PLAN,
    PlannedJob as PlannedJob,
    RackPlan as RackPlan,
    rack_plan as rack_plan,
)
from kwiken.batch.racks.planning import (
    PlannedRacks as PlannedRacks,
    plan_racks as plan_racks,
)
from kwiken.batch.racks.problem import (
    problem_of as problem_of,
)
from kwiken.batch.racks.response import (
    RackHardware as RackHardware,
    RackJob as RackJob,
    RackStage as RackStage,
    rack_jobs as rack_jobs,
    rack_response_s as rack_response_s,
)
from kwiken.batch.racks.schedule import Objective as Objective
from kwiken.batch.racks.selection import (
    SelectionPolicy as SelectionPolicy,
    TupleOffer as TupleOffer,
    select_tuple as select_tuple,
)
from kwiken.batch.racks.tree import RackTree as RackTree, TreeReservation as TreeReservation
