"""Planning problem: jobs with a completion time for each number of racks, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

MAX_PLANNED_JOBS: Final = 100_000
MAX_RACKS: Final = 1000
MAX_PLANNED_S: Final = 1e10  # of an arrival and of a job's completion time; three centuries
MAX_CELLS: Final = 20_000_000  # of jobs times racks; the arrays of a plan take some 50 bytes a cell


@dataclass(frozen=True, eq=False)
class RackProblem:
    """Jobs to be planned on a number of equal racks.

    Attributes:
        names: unique names of the jobs; ties between jobs are broken by name.
        arrivals_s: (J,) moment from which each job may start, seconds, 0 or more.
        input_bytes: (J,) size of each job's input, bytes, 0 or more.
        response_s: (J, R) completion time of each job alone on 1 to R racks, seconds, above 0. It may rise
            with the number of racks.

    Raises:
        InputError: names the job whose numbers are out of range, or says that there are too many.
    """

    names: tuple[str, ...]
    arrivals_s: Floats
    input_bytes: Floats
    response_s: Floats

    def __post_init__(self) -> None:
        """Check shapes, bounds and names."""
        jobs, racks = self.response_s.shape
        if not jobs or len(self.names) != jobs:
            raise InputError("a plan needs at least one job", where="jobs")
        if jobs > MAX_PLANNED_JOBS or racks > MAX_RACKS or jobs * racks > MAX_CELLS:
            raise InputError(
                f"{jobs} jobs on {racks} racks are too many: at most {MAX_PLANNED_JOBS} jobs, "
                f"{MAX_RACKS} racks and {MAX_CELLS} of both multiplied",
                where="jobs",
            )
        if len(set(self.names)) != jobs:
            raise InputError("two jobs have the same name", where="jobs")
        for field, values, least in (
            ("arrival", self.arrivals_s[:, None], 0.0),
            ("input", self.input_bytes[:, None], 0.0),
            ("completion time", self.response_s, np.nextafter(0, 1)),
        ):
            wrong = ~(np.isfinite(values) & (values >= least)).all(axis=1)
            if wrong.any():
                name = self.names[int(np.argmax(wrong))]
                bound = "0 or more" if least == 0 else "above 0"
                raise InputError(f"the {field} of job {name!r} must be finite and {bound}", where="jobs")

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.names)

    @property
    def racks(self) -> int:
        """Number of racks."""
        return int(self.response_s.shape[1])

    @cached_property
    def fastest_s(self) -> Floats:
        """(J,) shortest completion time of each job over all numbers of racks, seconds."""
        found: Floats = self.response_s.min(axis=1)
        return found

    @cached_property
    def work_s(self) -> Floats:
        """(J, R) time of a rack that each job takes on 1 to R racks, rack-seconds."""
        return self.response_s * np.arange(1, self.racks + 1)

    @cached_property
    def useful(self) -> Bools:
        """(J, R) whether a number of racks is quicker than each smaller number; one rack always counts."""
        best = np.minimum.accumulate(self.response_s, axis=1)
        found = np.ones(self.response_s.shape, dtype=np.bool_)
        found[:, 1:] = self.response_s[:, 1:] < best[:, :-1]
        return found

    def lengths(self, widths: Ints) -> Floats:
        """Completion time of each job on its number of racks, seconds.

        Args:
            widths: (J,) number of racks of each job, from 1.
        """
        return self.response_s[np.arange(self.jobs), widths - 1]

    def sorted_by_name(self) -> RackProblem:
        """The same jobs ordered by arrival, then by name."""
        order = sorted(range(self.jobs), key=lambda job: (self.arrivals_s[job], self.names[job]))
        if order == list(range(self.jobs)):
            return self
        return RackProblem(
            tuple(self.names[job] for job in order),
            self.arrivals_s[order],
            self.input_bytes[order],
            self.response_s[order],
        )


def problem_of(
    jobs: Sequence[tuple[str, float, float, Floats]],
) -> RackProblem:
    """Problem from one tuple a job: name, arrival in seconds, input in bytes, completion times in seconds.

    Raises:
        InputError: names the job that is wrong.
    """
    if not jobs:
        raise InputError("a plan needs at least one job", where="jobs")
    for name, arrival_s, _, response_s in jobs:
        for field, value in (("arrival", arrival_s), ("completion time", float(response_s.max()))):
            if value > MAX_PLANNED_S:
                told = f"the {field} of job {name!r} must be at most {MAX_PLANNED_S:g} s, not {value:.3g} s"
                raise InputError(told, where="jobs")
    return RackProblem(
        tuple(job[0] for job in jobs),
        np.array([job[1] for job in jobs], dtype=np.float64),
        np.array([job[2] for job in jobs], dtype=np.float64),
        np.array([job[3] for job in jobs], dtype=np.float64),
    ).sorted_by_name()
