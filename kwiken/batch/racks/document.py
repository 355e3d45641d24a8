"""The plan of racks as a document: racks, priority, start and places of data of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument
from kwiken.batch.racks.planning import PlannedRacks
from kwiken.batch.racks.problem import MAX_PLANNED_JOBS, MAX_PLANNED_S, MAX_RACKS
from kwiken.batch.racks.schedule import Objective

RACK_PLAN_VERSION: Final = 2  # 1 had the bound and the published heuristic beside the objective
MAX_RACK_PLAN: Final = 256 << 20  # bytes of a document
MAX_NAME: Final = 1000
MAX_SECONDS: Final = 2 * MAX_PLANNED_JOBS * MAX_PLANNED_S

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
FURTHER_REPLICAS = 2


@dataclass(frozen=True, eq=False)
class DataPlaces:
    """Racks of the replicas of each job's input.

    Attributes:
        further_rack: (J,) rack of the second and third replica of each job's input, outside its own racks
            where there is another.
        rack_bytes: (R,) bytes of all replicas on each rack.
    """

    further_rack: Ints
    rack_bytes: Floats

    @property
    def variation(self) -> float:
        """Coefficient of variation of the bytes on the racks; 0 where there are none."""
        mean = float(self.rack_bytes.mean())
        return float(self.rack_bytes.std() / mean) if mean > 0 else 0.0


def place_data(input_bytes: Floats, racks_of: Sequence[Sequence[int]], racks: int) -> DataPlaces:
    """Places of the replicas of each job's input: largest inputs first, each to the least loaded rack.

    The first replica is spread evenly over the job's racks. The others never share a rack with it unless the
    job has all racks, when a chunk's other replicas are on the rack after its own.

    Args:
        input_bytes: (J,) size of each job's input, bytes.
        racks_of: racks of each job, from 0.
        racks: number of racks, 1 or more.
    """
    load = np.zeros(racks)
    for job, own in enumerate(racks_of):
        load[list(own)] += input_bytes[job] / len(own)
    further = np.zeros(len(racks_of), dtype=np.int64)
    for job in np.argsort(-input_bytes, kind="stable").tolist():
        own = racks_of[job]
        others = load.copy()
        if len(own) < racks:
            others[list(own)] = np.inf
        further[job] = int(np.argmin(others))
        load[further[job]] += FURTHER_REPLICAS * input_bytes[job]
    return DataPlaces(further, load)


class PlannedJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Racks, priority and start of one job.

    Attributes:
        name: name of the run, unique in the plan.
        racks: names of the racks that its tasks run on, and that hold the first replica of its input.
        further_rack: name of the rack that holds the other replicas of its input.
        priority: rank by start, from 0, which is the highest.
        arrival_s: moment from which it may start, seconds.
        start_s: moment at which the plan starts it, seconds from the first arrival.
        took_s: planned time from start to end, seconds.
    """

    name: _Name
    racks: Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=MAX_RACKS)]
    further_rack: _Name
    priority: Annotated[int, msgspec.Meta(ge=0, le=MAX_PLANNED_JOBS)]
    arrival_s: _Seconds
    start_s: _Seconds
    took_s: _Seconds


class RackPlan(JsonDocument, frozen=True, kw_only=True):
    """Plan of batch jobs on racks, as `kwiken batch plan` writes it.

    Attributes:
        version: version of the format; must be 2.
        scheduling: `planned`, or the simple rule that is no worse in the simulation: then all jobs have all
            racks, by arrival or the shortest first; `fair share` has the shortest first where slots cannot be
            shared.
        racks: names of all racks.
        objective_s: makespan or mean time from arrival to end, seconds.
        jobs: all planned jobs, the highest priority first.
    """

    FORMAT: ClassVar = DocumentFormat(
        RACK_PLAN_VERSION,
        MAX_RACK_PLAN,
        ("minimise",),
        "is no plan of racks; kwiken batch plan -o writes one",
    )

    version: int = RACK_PLAN_VERSION
    scheduling: Literal["planned", "by arrival", "shortest first", "fair share"] = "planned"
    minimise: Objective
    racks: Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=MAX_RACKS)]
    objective_s: _Seconds
    jobs: Annotated[list[PlannedJob], msgspec.Meta(min_length=1, max_length=MAX_PLANNED_JOBS)]

    def to_json(self) -> str:
        """The plan as JSON, one job a line, readable by `from_json`."""
        head = msgspec.to_builtins(self)
        del head["jobs"]
        start = msgspec.json.encode(head).decode()[:-1]
        lines = ",\n".join(msgspec.json.encode(job).decode() for job in self.jobs)
        return f'{start},"jobs":[\n{lines}\n]}}\n'

    def check(self, where: str) -> None:
        """Check that jobs are given once, on racks that are listed."""
        known, names = set(self.racks), set()
        for place, job in enumerate(self.jobs):
            if job.name in names:
                raise InputError(f"jobs[{place}].name: {job.name!r} is given twice", where=where)
            names.add(job.name)
            strange = next((rack for rack in (*job.racks, job.further_rack) if rack not in known), None)
            if strange is not None:
                raise InputError(f"jobs[{place}]: the plan lists no rack {strange!r}", where=where)


def rack_plan(planned: PlannedRacks, kind: Objective, rack_names: Sequence[str]) -> RackPlan:
    """Document of a plan.

    Args:
        rack_names: name of each rack of the problem.
    """
    problem, schedule = planned.problem, planned.schedule
    racks_of = schedule.racks_of(problem.racks)
    places = place_data(problem.input_bytes, racks_of, problem.racks)
    return RackPlan(
        minimise=kind,
        racks=list(rack_names),
        objective_s=planned.objective_s,
        jobs=[
            PlannedJob(
                name=problem.names[job],
                racks=[rack_names[rack] for rack in racks_of[job]],
                further_rack=rack_names[places.further_rack[job]],
                priority=priority,
                arrival_s=float(problem.arrivals_s[job]),
                start_s=float(schedule.starts_s[job]),
                took_s=float(schedule.lengths_s[job]),
            )
            for priority, job in enumerate(schedule.order.tolist())
        ],
    )
