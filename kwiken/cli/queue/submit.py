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
from kwiken.cli.shared.options import NOT_NEGATIVE, json_option, removed_option

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
    "--needs",
    multiple=True,
    metavar="SOURCE=SHARE",
    help="Pressure that it exerts on a shared resource, 0 to 1, as l3-capacity=0.6; repeatable.",
)
@click.option(
    "--takes",
    "takes_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Time of its work: shorter jobs go first.  [default: an hour]",
)
@click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    default=0,
    show_default=True,
    help="A higher one goes first.",
)
@click.option("--name", metavar="NAME", help="Beginning of its name.  [default: the command's]")
@removed_option("--quality", "--priority and --needs")
@removed_option("--wait", "--priority and --takes")
@json_option
def command(
    *,
    command_words: tuple[str, ...],
    state: str,
    cores: float,
    memory_gb: float,
    needs: tuple[str, ...],
    takes_s: float | None,
    priority: int,
    name: str | None,
    as_json: bool,
) -> None:
    """Give the cluster that `kwiken up --nodes` runs a job: COMMAND runs once, in the present folder.

    The highest priority goes first, then the shortest job by --takes. The name of the job is printed on
    stdout. What the command writes goes to a file in the folder of the state. `kwiken queue` shows where the
    job stands. Write -- before COMMAND if the command has options of its own.
    """
    from kwiken.runtime.cluster.state.jobs.documents import JobOrder
    from kwiken.runtime.cluster.state.jobs.folder import JobFolder

    order = JobOrder(
        version=1,
        name=f"{_stem(name, command_words[0])}-{secrets.token_hex(3)}",
        command=list(command_words),
        folder=_present_folder(),
        cores=cores,
        memory_gb=memory_gb,
        caused=pressures(needs),
        takes_s=takes_s,
        priority=priority,
        submitted_at=time.time(),
    )
    order.check(where="kwiken submit")
    folder = JobFolder(Path(state))
    folder.submit(order)
    log = str(folder.log(order.name))
    if as_json:
        print_json({"job": order.name, "log": log})
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
