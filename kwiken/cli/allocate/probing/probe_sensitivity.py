"""`kwiken probe stage --sensitivity`: the least share of each resource that keeps a stage's p99."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, print_json, print_table, progress, read_text
from kwiken.base.machine.files import MIB
from kwiken.cli.allocate.probing.run_probe import run_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwiken.allocator.contention.machine_probe import MachineProbe
    from kwiken.allocator.packing.needs.sensitivity import SensitivityCurve
    from kwiken.probes.stage import StageProber, StageTarget

MAX_MACHINE: Final = 4 * MIB
WINDOWS: Final = 10  # of a usual measurement, in one of a p99
STEPS: Final = 12  # recording, nine shares of the processor, two bandwidths


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


def show_sensitivity(
    goal: StageTarget,
    workload: str,
    speeds: Mapping[str, float],
    machine: str | None,
    *,
    rate_per_s: float | None,
    window_s: float,
    as_json: bool,
) -> None:
    """Measure the sensitivity of a stage and print curves and scores.

    Args:
        workload: name of the stage in the answer.
        speeds: speed of node classes as a share of this machine's, by name.
        machine: path of the calibration of this machine; None to calibrate now.
        rate_per_s: calls per second; None for half of what one core completes.
        window_s: length of one window, seconds; a p99 is measured over ten of them.
        as_json: whether to print JSON.
    """
    from kwiken.allocator.contention.machine_probe import probe_from_json
    from kwiken.allocator.packing.needs.sensitivity import DIMENSIONS, on_class

    calibrated = None
    if machine is not None:
        calibrated = probe_from_json(read_text(machine, MAX_MACHINE), where=machine)

    async def probe(advanced: Callable[[], None]) -> tuple[float, dict[str, SensitivityCurve]]:
        stages = await stage_prober(calibrated, window_s, advanced)
        return await stages.sensitivity(goal, rate_per_s, WINDOWS * window_s)

    with progress(f"probing {workload}", total=STEPS) as bar:
        rate, curves = run_probe(probe(bar.advance))
    cpu = curves[DIMENSIONS[0]].score
    classes = {name: on_class(cpu, speed) for name, speed in speeds.items()}
    if as_json:
        print_json(
            {
                "name": workload,
                "rate_per_s": rate,
                "dimensions": {
                    name: {
                        "score": curve.score,
                        "shares": curve.shares.tolist(),
                        "p99_ms": curve.p99_ms.tolist(),
                        "impacts": curve.impacts.tolist(),
                    }
                    for name, curve in curves.items()
                },
                "cpu_by_class": classes,
            }
        )
        return
    shares = next(iter(curves.values())).shares.tolist()
    columns = ("share left", *(f"p99 ms by {name}" for name in curves))
    rows = [
        (f"{share:.0%}", *(f"{curve.p99_ms[at]:.4g}" for curve in curves.values()))
        for at, share in enumerate(shares)
    ]
    print_table(f"{workload} at {rate:.4g} calls/s", columns, rows)
    print_table("", ("resource", "least share"), [(name, f"{one.score:.2f}") for name, one in curves.items()])
    if classes:
        rows = [(name, f"{score:.2f}", "yes" if score <= 1 else "no") for name, score in classes.items()]
        print_table("", ("class", "least share of its processor", "keeps the p99"), rows)
        note("bandwidths are not carried to other classes: their bandwidth for each core is not known")
