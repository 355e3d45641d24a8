"""`kwiken probe stage`: measures a stage in a sandbox, and appends an entry to a measurements document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    note,
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.allocate.probing.run_probe import run_probe
from kwiken.cli.shared.options import (
    Real,
    json_option,
    load_service,
    needs_extra,
    removed_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kwiken.allocator.contention.machine_probe import MachineProbe
    from kwiken.allocator.contention.measured_stage import StageProbe
    from kwiken.allocator.contention.stage_plan import ProbePlan
    from kwiken.allocator.workloads.measurements import Measurements
    from kwiken.probes.stage import StageProber, StageTarget

MAX_MEASUREMENTS: Final = 64 * MIB
MAX_REQUESTS: Final = 16 * MIB
MAX_MACHINE: Final = 4 * MIB
MAX_SPEED: Final = 1.0  # a quota makes no processor faster


async def stage_prober(
    calibrated: MachineProbe | None, window_s: float, advanced: Callable[[], None]
) -> StageProber:
    """Prober of stages on this machine.

    Args:
        calibrated: calibrations of the sources of contention; None to make them when they are needed.
        window_s: length of one window, seconds.
        advanced: called after each step of a probe.
    """
    from kwiken.probes.build import build_kernels
    from kwiken.probes.facts import machine_facts
    from kwiken.probes.machine import MachineProber, ProbeSettings
    from kwiken.probes.stage import StageProber

    facts = machine_facts()
    prober = MachineProber(await build_kernels(), facts, ProbeSettings(), lambda: None)
    calibrations = {} if calibrated is None else calibrated.calibrations
    return StageProber(prober, facts, calibrations=calibrations, window_s=window_s, advanced=advanced)


@click.command(short_help="Measure a stage in a sandbox, for kwiken classify.")
@click.argument("target", metavar="MODULE:SERVICE")
@click.option("--stage", required=True, help="Name of the stage.")
@click.option(
    "--requests", metavar="FILE", required=True, help="Requests of the service, one JSON body a line."
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="Measurements to append the stage to; a new file starts with the history.",
)
@click.option(
    "--history",
    metavar="FILE",
    help="Measurements whose reference and history a new file takes.  [default: those recorded with kwiken]",
)
@click.option("--name", help="Name of the workload.  [default: SERVICE/STAGE]")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    help="Source of contention to ramp.  [default: the two that tell most]",
)
@click.option("--all", "whole", is_flag=True, help="Measure everything that the history has; takes minutes.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME=SPEED",
    help="Speed of a node class, as a share of this machine's; a class named speed-0.5 needs none; "
    "repeatable.",
)
@click.option("--machine", metavar="FILE", help="Calibration of this machine, from kwiken probe machine.")
@click.option("--working-folder", metavar="DIR", help="Folder that the sandbox copies.  [default: this one]")
@click.option(
    "--window",
    "window_s",
    type=Real(0.02, 10),
    default=0.2,
    show_default=True,
    help="Seconds of one measurement; at most 75 are made.",
)
@removed_option("--sources", "--source NAME for each; the default takes the two that tell most")
@removed_option("--profile", "--source NAME, as --sources auto is gone")
@removed_option("--target-p99", "--source NAME, as --sources auto is gone")
@removed_option("--sensitivity", "the sources that are ramped, whose scores classify reads", flag=True)
@removed_option("--rate", "the sources that are ramped, whose scores classify reads")
@json_option
@needs_extra("plan")
def command(
    *,
    target: str,
    stage: str,
    requests: str,
    out: str | None,
    history: str | None,
    name: str | None,
    sources: tuple[str, ...],
    whole: bool,
    classes: tuple[str, ...],
    machine: str | None,
    working_folder: str | None,
    window_s: float,
    as_json: bool,
) -> None:
    """Run a stage of MODULE:SERVICE in a sandbox and measure what kwiken classify needs.

    The service answers the requests once, and the inputs of the stage are kept. The stage alone then runs on
    them: at another size, with more replicas, on a slower class of node, and under contention. Each
    is chosen from the history so that it tells most.
    """
    if whole and sources:
        raise InputError("has every source already", where="--all")
    if out == "-":
        raise InputError("must be a file: the entry is appended to it", where="--out")
    from pathlib import Path

    service = load_service(target)
    known_name = service[stage].name
    workload = name or f"{service.name}/{known_name}"
    read_text(requests, MAX_REQUESTS)
    folder = Path(working_folder or ".")
    if not folder.is_dir():
        raise InputError("is no folder", where=working_folder)
    text, where = _document(out, history)
    told = None if machine is None else read_text(machine, MAX_MACHINE)
    from kwiken.allocator.contention.machine_probe import probe_from_json
    from kwiken.allocator.contention.stage_plan import class_speeds, plan_stage, whole_plan
    from kwiken.allocator.workloads.measurements import measurements_from_text

    known = measurements_from_text(text, where=where, min_workloads=0)
    _check_new(workload, known, where)
    from kwiken.probes.facts import machine_facts
    from kwiken.probes.stage import ROUNDS, StageTarget

    speeds = class_speeds(known, _speeds(classes), where=where)
    calibrated = None if told is None else probe_from_json(told, where=str(machine))
    count = len(machine_facts().processors)
    plan = plan_stage(known, processors=count, speeds=speeds, sources=sources, where=where)
    plan = whole_plan(known, processors=count, speeds=speeds) if whole else plan
    goal = StageTarget(target, known_name, Path(requests), folder)
    with progress(f"probing {workload}", total=1 + ROUNDS + len(plan.sources)) as bar:
        found = run_probe(_probe(goal, plan, calibrated, window_s, bar.advance))
    if out is not None:
        _append(out, text, workload, found)
    if as_json:
        print_json(_as_json(workload, found))
        return
    _show(workload, found)
    note_written(out)


async def _probe(
    goal: StageTarget,
    plan: ProbePlan,
    calibrated: MachineProbe | None,
    window_s: float,
    advanced: Callable[[], None],
) -> StageProbe:
    stages = await stage_prober(calibrated, window_s, advanced)
    return await stages.run(goal, plan)


def _document(out: str | None, history: str | None) -> tuple[str, str]:
    """Text to append to, and the name of its source in errors.

    There are three cases: 1. the file exists: it is continued; 2. it does not, and a history is given: its
    head; 3. no history is given: the one recorded with kwiken.
    """
    from pathlib import Path

    if out is not None and Path(out).exists():
        if history is not None:
            raise InputError(f"{out} exists and has a history already", where="--history")
        text, where = read_text(out, MAX_MEASUREMENTS), out
    else:
        place: str | Path = history or _recorded()
        text, where = read_text(str(place), MAX_MEASUREMENTS), str(place)
    if text.lstrip().startswith("{"):
        raise InputError("must be TOML: an entry is appended as text", where=where)
    from kwiken.allocator.contention.measured_stage import without_workloads

    return (text if where == out else without_workloads(text)), where


def _recorded() -> Path:
    from kwiken.probes.recorded import RECORDED_HISTORY

    return RECORDED_HISTORY


def _check_new(workload: str, known: Measurements, where: str) -> None:
    if any(each.name == workload for each in known.workloads):
        raise InputError(f"has a workload {workload!r} already; give --name NAME", where=where)


def _speeds(texts: tuple[str, ...]) -> dict[str, float]:
    """Speed by node class, from the texts of the option.

    Raises:
        InputError: text of another form, or a speed that a quota cannot make.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            speed = float(number)
        except ValueError:
            speed = 0.0
        if not (equals and name and 0 < speed <= MAX_SPEED):
            raise InputError(
                f"must be NAME=SPEED with a speed above 0 and at most 1, not {text!r}", where="--class"
            )
        found[name] = speed
    return found


def _append(out: str, text: str, workload: str, found: StageProbe) -> None:
    from kwiken.allocator.contention.measured_stage import appended, workload_entry
    from kwiken.allocator.workloads.measurements import measurements_from_text

    whole = appended(text, [workload_entry(workload, found)])
    measurements_from_text(whole, where=out)  # what was measured must be readable, or nothing is written
    write_text(out, whole)


def _show(workload: str, found: StageProbe) -> None:
    from kwiken.allocator.contention.stage_plan import setting_text

    reference = found.runs[0].performance
    rows = [
        (
            setting_text(run.setting),
            f"{run.performance:.4g}",
            _plus_minus(run.performance / reference, run.performance / reference * run.deviation),
        )
        for run in found.runs
    ]
    print_table(workload, ("setting", "calls/s", "times the reference"), rows)
    rows = [
        (
            source,
            _plus_minus(each.tolerated, each.tolerated_deviation),
            _plus_minus(each.caused, each.caused_deviation),
        )
        for source, each in found.scores.items()
    ]
    print_table("", ("source of contention", "tolerated", "caused"), rows)
    note(f"sizes and classes were played by {found.played_by}; memory is not limited")
    if found.rough:
        note(f"not near a line when calibrated, so that scores are rough: {', '.join(found.rough)}")


def _plus_minus(value: float, deviation: float) -> str:
    return f"{value:.2f} ± {deviation:.2f}"


def _as_json(workload: str, found: StageProbe) -> dict[str, Any]:
    return {
        "name": workload,
        "measure": "capacity",
        "work_variation": found.work_variation,
        "played_by": found.played_by,
        "rough": found.rough,
        "runs": [
            {
                "cores": run.setting.size.cores,
                "memory_gb": run.setting.size.memory_gb,
                "replicas": run.setting.replicas,
                "class": run.setting.node_class,
                "performance": run.performance,
                "deviation": run.deviation,
            }
            for run in found.runs
        ],
        **{
            field: {source: getattr(each, field) for source, each in found.scores.items()}
            for field in ("tolerated", "caused", "tolerated_deviation", "caused_deviation")
        },
    }
