"""Benchmark of plans on racks: the whole planner beside the published heuristic to the letter, in one run."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Row, alone, side_by_side
from kwiken.batch.racks.planning import plan_racks
from kwiken.batch.racks.problem import RackProblem, problem_of
from kwiken.batch.racks.response import rack_response_s
from papers.corral.heuristic import provision_literally
from papers.corral.tuples.rack_tree import RackTree
from papers.corral.tuples.tuple_selection import TupleOffer, select_tuple
from papers.corral.workloads import TESTBED, w1

RACKS = 100
JOBS = 500
SHARE = 0.2  # of the heuristic's time
SPAN_S = 1800.0
MACHINES_A_RACK = 40
TREE_RACKS = 800
SEED = 500


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    jobs = 100 if quick else JOBS
    rows = []
    for kind, span_s in (("makespan", 0.0), ("mean", SPAN_S)):
        problem = _problem(jobs, span_s)
        found: dict[str, float] = {}

        def ours(problem: RackProblem = problem, kind: str = kind, found: dict[str, float] = found) -> None:
            found["ours"] = plan_racks(problem, kind).objective_s  # type: ignore[arg-type]

        def theirs(problem: RackProblem = problem, kind: str = kind, found: dict[str, float] = found) -> None:
            found["theirs"] = provision_literally(problem, kind).value_s  # type: ignore[arg-type]

        timing = side_by_side(
            f"plan of {jobs} jobs on {RACKS} racks, {kind}",
            ours,
            ("published heuristic to the letter", theirs),
            rounds=1,
            unit="s",
            scale=1.0,
        )
        assert timing.theirs is not None
        rows += [
            Row(
                name=timing.name,
                ours=timing.ours,
                unit="s",
                target=SHARE * timing.theirs,
                alternative=timing.alternative,
                theirs=timing.theirs,
                ratio=timing.ratio,
                spread=timing.spread,
            ),
            Row(
                name=f"{kind} of these plans",
                ours=found["ours"],
                unit="s",
                target=found["theirs"] * (1 + 1e-9),
                alternative=timing.alternative,
                theirs=found["theirs"],
                ratio=found["theirs"] / found["ours"],
            ),
        ]
    rows.append(_decision(quick=quick))
    return rows


def _problem(jobs: int, span_s: float) -> RackProblem:
    drawn = w1(jobs, SEED, span_s=span_s)
    return problem_of(
        [(job.name, job.arrival_s, job.input_bytes, rack_response_s(job, RACKS, TESTBED)) for job in drawn]
    )


def _decision(*, quick: bool) -> Row:
    """Time of a choice among 50 tuples on 128,000 virtual machines."""
    racks = 100 if quick else TREE_RACKS
    tree = RackTree(
        4,
        np.repeat(np.arange(racks), MACHINES_A_RACK),
        np.repeat(np.arange(racks // 20), 20),
        125e6,
        125e6 * MACHINES_A_RACK / 3,
        125e6 * MACHINES_A_RACK * 20 / 10,
    )
    offers = [TupleOffer(size, 6e7 / size**0.5, 100.0) for size in range(1, 51)]
    chance = np.random.default_rng(SEED)

    def decide() -> None:
        found = select_tuple(tree, offers, "balanced", chance, exact=False)
        assert found is not None
        tree.take(found.reservation, -1)

    return alone(
        f"choice among 50 tuples on {racks * MACHINES_A_RACK * 4} virtual machines",
        decide,
        rounds=3 if quick else 10,
        unit="ms",
        scale=1e3,
        target=950.17,
    )
