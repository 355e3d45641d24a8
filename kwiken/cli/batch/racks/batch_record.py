"""`kwiken batch record`: writes the tasks of a running Dask to a file that `kwiken batch fit` reads."""

from __future__ import annotations

from collections.abc import Callable

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import needs_extra, seconds_of


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("-o", "--out", "out", metavar="FILE", required=True, help="File to write the recording to.")
@click.option(
    "--name", default="dask", show_default=True, help="Name of the job that the tasks are taken as."
)
@click.option(
    "--for",
    "for_s",
    callback=seconds_of,
    metavar="TIME",
    help="Length of the recording, such as 10m; until Ctrl-C without it.",
)
@needs_extra("batch")
def command(*, address: str, out: str, name: str, for_s: float | None) -> None:
    """Record the tasks of the Dask scheduler at HOST:PORT: times, bytes, workers, and what waited for what.

    All tasks while it records are taken as one job; groups of tasks of one name are its stages. It ends on
    Ctrl-C, after --for, or when the scheduler is gone. The plugin that it adds to the scheduler, whose Python
    needs kwiken, is taken away at the end. Dask's own connections carry code: keep its scheduler on loopback
    or a network of your own.
    """
    import asyncio
    import signal
    from pathlib import Path

    from kwiken.apps.batch_run.recorder import record

    try:
        Path(out).write_text("")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=out) from error

    async def recorded(write: Callable[[str], None]) -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop.set)
        if for_s is not None:
            loop.call_later(for_s, stop.set)
        return await record(address, name, write, stop)

    with Path(out).open("a", encoding="utf-8", buffering=1) as file:
        tasks = asyncio.run(recorded(lambda line: print(line, file=file)))
    note(f"{tasks} tasks written to {out}; kwiken batch fit reads them")
