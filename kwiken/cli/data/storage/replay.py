"""`kwiken storage replay`: sends a model's I/Os to a file that is made for it, and measures latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, note_written, print_json, print_table, progress, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.data.storage.models import FACTOR, load_model
from kwiken.cli.shared.options import (
    Real,
    json_option,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    seed_option,
)

if TYPE_CHECKING:
    from kwiken.cli.data.storage.replay_file import ReplayRun
    from kwiken.storage.model.document import StorageModel

MAX_SECONDS: Final = 3600.0
MAX_IOS: Final = 2_000_000  # of one run; their times are held in memory
MIN_IOS: Final = 2  # of one run, for a rate
MAX_WORKERS: Final = 1024
CURVE: Final = (4.0, 2.0, 1.41, 1.0, 0.71, 0.5, 0.35, 0.25)  # scales of --curve, from light to heavy
MAX_SIZE_MB: Final = 1_000_000.0


@click.command(short_help="Send a model's I/Os to a file that is made for it.")
@click.argument("model", metavar="MODEL")
@click.argument("file", metavar="FILE")
@click.option(
    "--scale", type=FACTOR, default=1.0, show_default=True, help="Factor of every gap; below 1 is heavier."
)
@click.option("--curve", is_flag=True, help="Run at eight scales, from 4 to 0.25 times --scale.")
@click.option(
    "--seconds",
    type=Real(0.01, MAX_SECONDS),
    default=10.0,
    show_default=True,
    help="Length of a run.",
)
@click.option(
    "--size",
    "size_mb",
    type=Real(1, MAX_SIZE_MB),
    default=256.0,
    show_default=True,
    help="Length of the file in MB, onto which the addressed space is mapped.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    default=64,
    show_default=True,
    help="Most I/Os in flight.",
)
@click.option("--keep", is_flag=True, help="Leave FILE, which is removed otherwise.")
@seed_option
@out_option(what="curve as JSON")
@json_option
@needs_extra("plan")
def command(
    *,
    model: str,
    file: str,
    scale: float,
    curve: bool,
    seconds: float,
    size_mb: float,
    workers: int,
    keep: bool,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Send I/Os drawn from MODEL to FILE in open loop, and measure them from their deadlines.

    FILE must not exist: it is made, filled and removed, and nothing of it is left however the command ends.
    Nothing else is written to, and no device.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    learned = load_model(model)
    from kwiken.cli.data.storage.replay_file import made_file

    size = int(size_mb * 1e6) // 4096 * 4096
    scales = [scale * factor for factor in CURVE] if curve else [scale]
    results = []
    with (
        made_file(file, size, keep=keep) as (number, direct),
        progress("replaying", total=len(scales)) as bar,
    ):
        if not direct:
            note(f"note: {file}: its file system has no direct I/O; latencies are those of the page cache")
        for each in scales:
            run = _run(learned, each, seconds, seed, (number, size, workers, direct))
            results.append(_summary(each, run))
            bar.advance()
    if out is not None:
        import json

        write_text(out, json.dumps({"version": 1, "runs": results}, indent=1) + "\n")
        note_written(out)
    if as_json:
        print_json(results)
    elif out != "-":
        _show(results)


def _run(
    model: StorageModel, scale: float, seconds: float, seed: int, target: tuple[int, int, int, bool]
) -> ReplayRun:
    import numpy as np

    from kwiken.cli.data.storage.replay_file import replay
    from kwiken.storage.model.generator import IODrawing, generate

    number, size, workers, direct = target
    ios = max(MIN_IOS, round(min(seconds * model.rate_per_s / scale, 1e18)))
    if ios > MAX_IOS:
        raise InputError(
            f"{ios:.4g} I/Os in {seconds:g} s are more than {MAX_IOS}; give fewer --seconds or a larger "
            "--scale",
            where="--seconds",
        )
    trace = generate(model, np.random.default_rng(seed), IODrawing(ios=ios, scale=scale))
    trace = trace.taken(trace.t_s <= seconds)
    if len(trace) < MIN_IOS:
        raise InputError(f"the model draws no second I/O within {seconds:g} s; give more", where="--seconds")
    return replay(trace, number, size, workers=workers, direct=direct)


def _summary(scale: float, run: ReplayRun) -> dict[str, Any]:
    import numpy as np

    latency = run.latency_s * 1e3
    return {
        "scale": scale,
        "ios": len(latency),
        "asked_per_s": run.asked_per_s,
        "served_per_s": run.served_per_s,
        "late": run.late,
        "late_p99_ms": float(np.quantile(run.late_s, 0.99) * 1e3),
        "mean_ms": float(latency.mean()),
        "p50_ms": float(np.quantile(latency, 0.5)),
        "p99_ms": float(np.quantile(latency, 0.99)),
        "p999_ms": float(np.quantile(latency, 0.999)),
        "direct": run.direct,
    }


def _show(results: list[dict[str, Any]]) -> None:
    print_table(
        "",
        ("scale", "I/Os", "asked/s", "served/s", "late", "mean ms", "p50", "p99", "p99.9"),
        (
            (
                f"{run['scale']:.3g}",
                f"{run['ios']:,}",
                f"{run['asked_per_s']:,.5g}",
                f"{run['served_per_s']:,.5g}",
                f"{run['late']:,}",
                *(f"{run[name]:.3g}" for name in ("mean_ms", "p50_ms", "p99_ms", "p999_ms")),
            )
            for run in results
        ),
    )
    if len(results) > 1:
        bandwidth, tolerated = contention(results)
        say(
            f"contention: causes {bandwidth:.3g} of the disk's most served rate at its own load; "
            f"tolerates {tolerated:.3g} times its own load until p99 has doubled"
        )


def contention(results: list[dict[str, Any]]) -> tuple[float, float]:
    """Scores of a stage on this disk: share of the most served rate, and load that doubles p99.

    Returns:
        Share of the disk's rate that the workload takes at its own load, 0 to 1, and the factor of its load
        at which p99 is twice that of the lightest run.
    """
    own = results[CURVE.index(1.0)]
    most = max(run["served_per_s"] for run in results)
    calm = results[0]["p99_ms"]
    fits = [run for run in results if run["p99_ms"] <= 2 * calm]
    return own["served_per_s"] / most, max(run["asked_per_s"] for run in fits) / own["asked_per_s"]
