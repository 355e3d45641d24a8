"""`kwiken batch admit`: executors and bandwidth for jobs with deadlines, chosen by the balance they leave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option, needs_extra, seconds_of, seed_option

if TYPE_CHECKING:
    from kwiken.batch.jobs.job import BatchJob
    from kwiken.batch.racks.admission import JudgedOffer
    from kwiken.batch.racks.tree import RackTree, TreeReservation
    from kwiken.model.nodes.document import RackCluster

REFUSED: Final = 1  # exit code when a job was not admitted
GBPS: Final = 1e9 / 8  # bytes per second
MS: Final = 1000.0
MOST_SIZES: Final = 16  # numbers of executors that are tried
MAX_SHOWN: Final = 12
MAX_DEADLINES: Final = 100
_DEADLINE: Final = re.compile(r"(.{1,1000})=([^=]{1,20})", re.DOTALL)


def _deadlines(
    ctx: click.Context, param: click.Parameter, value: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Click callback: parse deadlines such as JOB=20m into names and seconds."""
    found: list[tuple[str, float]] = []
    for text in value:
        parts = _DEADLINE.fullmatch(text)
        if parts is None:
            raise click.BadParameter(f"{text!r} is no deadline of a job; write JOB=20m", ctx, param)
        found.append((parts[1], seconds_of(ctx, param, parts[2]) or 0.0))
    twice = next((name for name, _ in found if [each for each, _ in found].count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"job {twice!r} has two deadlines", ctx, param)
    if len(found) > MAX_DEADLINES:
        raise click.BadParameter(f"{MAX_DEADLINES} deadlines are the most", ctx, param)
    return tuple(found)


@click.command()
@click.argument("jobs", metavar="JOBS")
@click.option("--cluster", metavar="FILE", required=True, help="Nodes with racks, slots and links, in TOML.")
@click.option(
    "--deadline",
    "deadlines",
    metavar="JOB=TIME",
    multiple=True,
    required=True,
    callback=_deadlines,
    help="A job and the time in which it has to end, such as report=20m; may be repeated.",
)
@click.option(
    "--beside",
    metavar="FILE",
    help="Placement of services by kwiken place: the slots they hold are not there.",
)
@click.option(
    "--policy",
    type=click.Choice(("balanced", "time", "fastest", "random")),
    default="balanced",
    show_default=True,
    help="Tuple to choose: the least imbalance, that times the time, the quickest, or any.",
)
@click.option(
    "--expected", is_flag=True, help="Let the expected time meet the deadline, not nineteen runs in twenty."
)
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    jobs: str,
    cluster: str,
    deadlines: tuple[tuple[str, float], ...],
    beside: str | None,
    policy: Any,
    expected: bool,
    seed: int,
    as_json: bool,
) -> int:
    """Reserve executors and bandwidth for jobs of JOBS that have deadlines, one after the other.

    For each number of executors, the least bandwidth between them is found with which the job ends in time.
    Of these tuples the one is reserved that leaves the cluster best balanced. A job for which no tuple finds
    room is refused, and leaves no reservation behind; the exit code is then 1.
    """
    import numpy as np

    from kwiken.cli.batch.inputs.job_inputs import timed_jobs_in
    from kwiken.cli.batch.racks.plan_inputs import cluster_in

    every = timed_jobs_in(jobs)
    racks, held = cluster_in(cluster, beside)
    chance = np.random.default_rng(seed)
    desk = _Desk(racks, cluster, policy, chance, expected=expected)
    for name, deadline_s in deadlines:
        desk.ask(_runs_of(every, name), deadline_s)
    if held:
        note(held.removeprefix("; "))
    if as_json:
        print_json({"admitted": desk.answers})
    else:
        for answer in desk.answers:
            _show(answer)
    return 0 if all(answer["executors"] is not None for answer in desk.answers) else REFUSED


def _runs_of(jobs: list[BatchJob], name: str) -> list[BatchJob]:
    from kwiken.batch.jobs.replay.predictor import runs_by_job
    from kwiken.cli.batch.inputs.job_inputs import unknown_job

    for group in runs_by_job(jobs):
        if group[0].name == name:
            return group
    raise unknown_job(name, jobs)


class _Desk:
    """Admission of jobs in the order in which they ask: each reservation is kept for the next."""

    def __init__(self, cluster: RackCluster, where: str, policy: Any, chance: Any, *, expected: bool) -> None:
        self.cluster, self.where, self.policy, self.chance = cluster, where, policy, chance
        self.expected = expected
        self.tree: RackTree | None = None
        self.slots_each = 0
        self.answers: list[dict[str, Any]] = []

    def ask(self, runs: list[BatchJob], deadline_s: float) -> None:
        """Answer one job: the tuple that is reserved, or why there is none."""
        from kwiken.batch.jobs.replay.predictor import Predictor
        from kwiken.batch.racks.admission import judge_offers, offers_in_time
        from kwiken.batch.racks.selection import select_tuple
        from kwiken.cli.batch.quantities import spread

        predictor = Predictor(runs)
        tree = self._tree_for(max(model.slots_per_executor for model in predictor.runs), runs[0].name)
        free = int(tree.free.sum())
        sizes = spread(1, free)[:: max(1, len(spread(1, free)) // MOST_SIZES)] if free else ()
        offers, nearest_ms = offers_in_time(
            predictor, MS * deadline_s, sizes, tree.machine_link, expected=self.expected
        )
        judged = judge_offers(tree, offers)
        chosen = select_tuple(tree, offers, self.policy, self.chance)
        answer: dict[str, Any] = {
            "job": runs[0].name,
            "deadline_s": deadline_s,
            "executors": None if chosen is None else chosen.offer.size,
            "gbit_per_s": None if chosen is None else chosen.offer.bandwidth / GBPS,
            "ends_in_s": None if chosen is None else chosen.offer.time_s,
            "nodes": {} if chosen is None else self._nodes(chosen.reservation),
            "free_before": free,
            "free_after": int(tree.free.sum()),
            "least_free_uplink_gbit_per_s": float(tree.links[1].min()) / GBPS,
            "tuples": [_told(each) for each in judged],
            "refused": "",
        }
        if chosen is None:
            answer["refused"] = _why(offers, free, nearest_ms)
        self.answers.append(answer)

    def _tree_for(self, slots_each: int, job: str) -> RackTree:
        """Tree of the cluster; all jobs have executors of one size, since its places are executors."""
        from kwiken.batch.racks.admission import admission_tree

        if self.tree is None:
            try:
                self.tree = admission_tree(self.cluster, slots_each)
            except InputError as error:
                raise InputError(error.problem, where=self.where) from error
            self.slots_each = slots_each
        if slots_each != self.slots_each:
            raise InputError(
                f"{job!r} has executors of {slots_each} slots and the first job of {self.slots_each}; "
                "admit them apart",
                where="--deadline",
            )
        return self.tree

    def _nodes(self, found: TreeReservation) -> dict[str, int]:
        """Number of executors on each node of a reservation."""
        order = sorted(range(len(self.cluster.slots)), key=lambda node: (self.cluster.rack[node], node))
        names = [self.cluster.nodes.nodes[node].name for node in order]
        pairs = zip(found.machines.tolist(), found.counts.tolist(), strict=True)
        return {names[place]: count for place, count in pairs}


def _told(judged: JudgedOffer) -> dict[str, Any]:
    return {
        "executors": judged.offer.size,
        "gbit_per_s": judged.offer.bandwidth / GBPS,
        "ends_in_s": judged.offer.time_s,
        "imbalance": judged.imbalance,
        "executors_left": judged.executors_left,
    }


def _why(offers: Sequence[Any], free: int, nearest_ms: float) -> str:
    """Why no tuple was reserved."""
    if not free:
        return "no slot is free"
    if not offers:
        return f"nothing ends in time; the nearest is {nearest_ms / MS:.1f} s with all of the links"
    return f"none of the {len(offers)} tuples that end in time finds slots and links that are free"


def _rank(told: dict[str, Any]) -> tuple[bool, float, int]:
    """Sort key of a tuple: the least imbalance first, those without room last."""
    return told["imbalance"] is None, told["imbalance"] or 0.0, told["executors"]


def _show(answer: dict[str, Any]) -> None:
    wanted = f"{answer['job']} in {answer['deadline_s']:g} s"
    if answer["executors"] is None:
        say(f"{wanted}: refused; {answer['refused']}", "")
    else:
        say(
            f"{wanted}: {answer['executors']} executors with {answer['gbit_per_s']:.3f} Gbit/s each, "
            f"in {answer['ends_in_s']:.1f} s at most",
            f"leaves {answer['free_after']} of {answer['free_before']} free places for executors, and "
            f"{answer['least_free_uplink_gbit_per_s']:.2f} Gbit/s on the fullest uplink",
        )
        nodes = list(answer["nodes"].items())
        more = f" and {len(nodes) - MAX_SHOWN} nodes more" if len(nodes) > MAX_SHOWN else ""
        say("on " + ", ".join(f"{name}: {count}" for name, count in nodes[:MAX_SHOWN]) + more)
    ranked = sorted(answer["tuples"], key=_rank)
    rows = [
        (
            str(one["executors"]) + (" *" if one["executors"] == answer["executors"] else ""),
            f"{one['gbit_per_s']:.3f}",
            f"{one['ends_in_s']:.1f}",
            "-" if one["imbalance"] is None else f"{one['imbalance']:.4f}",
            "no room" if one["executors_left"] is None else str(one["executors_left"]),
        )
        for one in ranked[:MAX_SHOWN]
    ]
    if rows:
        title = "tuples that end in time; * is reserved, the least imbalance leaves the best balance"
        print_table(title, ("executors", "Gbit/s", "ends in s", "imbalance", "executors left"), rows)
