"""`kwiken submit`: gives a running cluster a batch job."""

from __future__ import annotations

import re
import secrets
import time
from pathlib import Path
from typing import Final

import click

from kwiken.apps.console.output import note, print_json, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import NOT_NEGATIVE, json_option

WHOLE: Final = 100.0
MAX_STEM: Final = 60  # characters of a name before its suffix
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


@click.command(short_help="Give the cluster a batch job.")
@click.argument("command_words", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of the cluster's state."
)
@click.option(
    "--cores",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="Cores that the job needs.",
)
@click.option(
    "--memory",
    "memory_gb",
    type=NOT_NEGATIVE,
    default=0.0,
    show_default=True,
    help="Memory that it needs, GB.",
)
@click.option(
    "--quality",
    type=click.FloatRange(0, WHOLE),
    metavar="0..100",
    help="Quality of node that it needs.  [default: by --needs, else 0: any node]",
)
@click.option(
    "--needs",
    multiple=True,
    metavar="SOURCE=SHARE",
    help="Pressure that it exerts on a shared resource, 0 to 1, as l3-capacity=0.6; repeatable.",
)
@click.option(
    "--wait",
    "wait_s",
    type=NOT_NEGATIVE,
    metavar="SECONDS",
    help="Time that it may wait for a node of its quality; then it takes any.  [default: 5% of --takes, else "
    "an hour]",
)
@click.option(
    "--takes", "takes_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time of its work."
)
@click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    default=0,
    show_default=True,
    help="A higher one goes first within a line.",
)
@click.option("--name", metavar="NAME", help="Beginning of its name.  [default: the command's]")
@json_option
def command(
    *,
    command_words: tuple[str, ...],
    state: str,
    cores: float,
    memory_gb: float,
    quality: float | None,
    needs: tuple[str, ...],
    wait_s: float | None,
    takes_s: float | None,
    priority: int,
    name: str | None,
    as_json: bool,
) -> None:
    """Give the cluster that `kwiken up --nodes` runs a job: COMMAND runs once, in the present folder.

    The job waits in the line of the quality of node that it needs. Its name is printed on stdout. What the
    command writes goes to a file in the folder of the state. `kwiken queue` shows where it stands. Write --
    before COMMAND if the command has options of its own.
    """
    from kwiken.runtime.cluster.state.jobs.documents import JobOrder
    from kwiken.runtime.cluster.state.jobs.folder import JobFolder

    caused = pressures(needs)
    order = JobOrder(
        version=1,
        name=f"{_stem(name, command_words[0])}-{secrets.token_hex(3)}",
        command=list(command_words),
        folder=_present_folder(),
        cores=cores,
        memory_gb=memory_gb,
        quality=_quality(quality, caused),
        caused=caused,
        wait_s=wait_s,
        takes_s=takes_s,
        priority=priority,
        submitted_at=time.time(),
    )
    order.check(where="kwiken submit")
    folder = JobFolder(Path(state))
    folder.submit(order)
    log = str(folder.log(order.name))
    if as_json:
        print_json({"job": order.name, "quality": order.quality, "log": log})
    else:
        say(order.name)
    view = folder.view()
    if view is None or not view.owner.alive:
        note("note: no kwiken up --nodes takes jobs from this folder now; the job waits for one")
    note(f"what it writes goes to {log}")


def _present_folder() -> str:
    """Folder in which the command is to run.

    Raises:
        InputError: somebody has removed it.
    """
    try:
        return str(Path.cwd())
    except OSError as error:
        raise InputError("the present folder is gone", where="kwiken submit") from error


def _stem(name: str | None, program: str) -> str:
    """Beginning of the name of a job.

    Raises:
        InputError: a name that a job cannot have.
    """
    if name is not None:
        if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_.-]{{0,{MAX_STEM - 1}}}", name):
            raise InputError(
                f"starts with a letter and has at most {MAX_STEM} letters, digits, '_', '-', '.', "
                f"unlike {name[:80]!r}",
                where="--name",
            )
        return name
    found = _UNFIT.sub("-", Path(program).name).strip("-._")[:MAX_STEM]
    return found if found[:1].isalpha() else f"job-{found}".rstrip("-")


def pressures(texts: tuple[str, ...]) -> dict[str, float]:
    """Pressures by source, from the texts of the option, `SOURCE=SHARE` each.

    Raises:
        InputError: a text of another form, a share out of range, an unknown source, or one given twice.
    """
    if not texts:
        return {}
    from kwiken.allocator.workloads.sources import SOURCES

    found: dict[str, float] = {}
    for text in texts:
        source, _, number = text.partition("=")
        if source not in SOURCES:
            raise InputError(
                f"must be SOURCE=SHARE with a source of {', '.join(SOURCES)}, not {text[:80]!r}",
                where="--needs",
            )
        if source in found:
            raise InputError(f"source {source!r} is given twice", where="--needs")
        if not re.fullmatch(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?", number):
            raise InputError(f"{source}: must be a share from 0 to 1, not {number[:40]!r}", where="--needs")
        found[source] = float(number)
    return found


def _quality(stated: float | None, caused: dict[str, float]) -> float:
    """Quality of node that a job needs: as stated, else its mean pressure over all sources (ARQ, 2.2)."""
    if stated is not None or not caused:
        return stated or 0.0
    from kwiken.allocator.workloads.sources import SOURCES

    return WHOLE * sum(caused.values()) / len(SOURCES)
