"""`kwiken queue`: shows batch jobs: who waits in which order, what runs and what ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwiken.runtime.cluster.state.jobs.documents import JobEvent, QueueView
    from kwiken.runtime.cluster.state.jobs.folder import JobFolder

UNWELL: Final = 1
MAX_ENDED: Final = 20  # jobs that ended, as shown


@click.command(short_help="Show the cluster's batch jobs.")
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of the cluster's state."
)
@click.option("--cancel", metavar="JOB", help="Take this job out of the queue, or end it if it runs.")
@json_option
def command(*, state: str, cancel: str | None, as_json: bool) -> int:
    """Show the jobs of the cluster: those that wait, in their order, those that run, and the last that ended.

    Exit code 1 when no cluster takes jobs though some wait.
    """
    from kwiken.runtime.cluster.state.jobs.folder import JobFolder
    from kwiken.runtime.cluster.state.jobs.journal import read_events

    folder = JobFolder(Path(state))
    names = sorted(folder.names())
    if cancel is not None:
        _cancel(folder, cancel, names)
        return 0
    view, events = folder.view(), read_events(folder.journal)
    alive = view is not None and view.owner.alive
    shown = (
        {one.job for one in view.waiting} | {one.job for one in view.running} if view is not None else set()
    )
    pending = [name for name in names if name not in shown or not alive]
    ended = [event for event in events if event.kind.final][-MAX_ENDED:]
    if as_json:
        print_json(_document(view if alive else None, pending, ended))
    else:
        if view is not None and alive:
            _show(view)
        _show_ended(ended)
        if not names and not ended:
            say("no jobs; give the cluster one with: kwiken submit -- COMMAND")
    if pending and alive:
        note(f"note: not taken yet: {', '.join(pending)}")
    elif pending:
        note(f"kwiken: no kwiken up --nodes takes jobs from {folder.folder}; {len(pending)} wait or run on")
    return UNWELL if pending and not alive else 0


def _cancel(folder: JobFolder, job: str, names: Sequence[str]) -> None:
    if job not in names:
        raise InputError(f"no job {job[:80]!r} waits or runs", where="--cancel")
    folder.ask_to_cancel(job)
    view = folder.view()
    if view is None or not view.owner.alive:
        note("note: no kwiken up --nodes takes jobs from this folder now; the next one cancels the job")


def _show(view: QueueView) -> None:
    if view.waiting:
        print_table(
            f"jobs that wait, the next one first (pid {view.owner.pid})",
            ("job", "priority", "cores", "takes", "waited"),
            [
                (
                    one.job,
                    str(one.priority),
                    f"{one.cores:.3g}",
                    "-" if one.takes_s is None else _time(one.takes_s),
                    _time(one.waited_s),
                )
                for one in view.waiting
            ],
        )
    for one in view.waiting:
        if one.too_large:
            note(f"note: {one.job} needs more than any node has, even an empty one; --cancel takes it out")
    if view.running:
        print_table(
            "jobs that run",
            ("job", "node", "cores", "for"),
            [(one.job, one.node, f"{one.cores:.3g}", _time(one.ran_s)) for one in view.running],
        )


def _show_ended(ended: Sequence[JobEvent]) -> None:
    if ended:
        rows = [
            (one.job, one.kind.value, _ending(one.code), one.node or "-", one.reason or "-") for one in ended
        ]
        print_table("last jobs that ended", ("job", "how", "with", "node", "reason"), rows)


def _document(view: QueueView | None, pending: Sequence[str], ended: Sequence[JobEvent]) -> dict[str, Any]:
    import msgspec

    return {
        "queue": msgspec.to_builtins(view),
        "not_taken": list(pending),
        "ended": msgspec.to_builtins(ended),
    }


def _ending(code: int | None) -> str:
    from kwiken.runtime.cluster.state.jobs.documents import exit_words

    return "-" if code is None else exit_words(code)


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s"
