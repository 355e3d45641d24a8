"""Checks of files named on the command line, made before a verb reads or writes any."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from kwiken.apps.console.output import check_writable, reason_of
from kwiken.base.errors import InputError
from kwiken.otel.http.query_address import scheme_of

FILE: Final = "FILE"  # end of the metavar of each option that takes a file
# Parameters that name an output file. An option whose metavar is another than FILE may name a folder that the
# verb makes; where such an option names a file, the verb calls `check_writable` itself.
OUTPUTS: Final = frozenset(("out", "output", "plan_out", "records", "template", "picture", "lines_file"))
DATA_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".gz", ".part")  # files that verbs read in a folder


def check_files(ctx: click.Context) -> None:
    """Refuse an input that may never end, and an output file that is also an input or cannot be written.

    A verb may work for minutes before it writes: where its files cannot be written, it does not begin.

    Args:
        ctx: context of the verb, with the values of its parameters.

    Raises:
        InputError: names the file.
    """
    inputs = list(_inputs(ctx))
    for path in inputs:
        _refuse_named_pipe(path)
    outputs = [
        (param, ctx.params[str(param.name)])
        for param in ctx.command.params
        if param.name in OUTPUTS and isinstance(ctx.params.get(str(param.name)), str)
    ]
    for number, (param, path) in enumerate(outputs):
        check_apart(path, inputs)
        if getattr(param, "metavar", None) == FILE:
            check_writable(path)
        for known, other in outputs[:number]:
            if _same_file(path, other):
                raise InputError(
                    f"is the file of {known.opts[0]} too; give another", where=max(param.opts, key=len)
                )


def check_apart(out: str, inputs: list[str]) -> None:
    """Refuse an output file that is also read.

    Args:
        inputs: paths of input files, and of folders that are searched for input files.

    Raises:
        InputError: the output is one of the inputs, under any name, or a data file in an input folder.
    """
    there = _status(out)
    if there is None or not stat.S_ISREG(there.st_mode):
        return  # a new file, stdout or a device
    for path in inputs:
        found = _status(path)
        if found is None:
            continue
        if os.path.samestat(there, found):
            raise InputError(
                f"is read too ({_input_name(path)}), and would be replaced; give another file", where=out
            )
        if stat.S_ISDIR(found.st_mode) and out.endswith(DATA_SUFFIXES) and _is_inside(out, path):
            raise InputError(
                f"is one of the files of {path}, which are read; give another file, or remove this one first",
                where=out,
            )


def check_exist(sources: Iterable[str]) -> None:
    """Refuse a source that does not exist, before the libraries that would read it are loaded.

    Args:
        sources: files, folders, and addresses of servers, which are not looked up.

    Raises:
        InputError: names the first file or folder that is missing or cannot be looked up, or an address of
            an unknown kind.
    """
    for source in sources:
        if scheme_of(source) is None:
            try:
                Path(source).stat()
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                raise InputError(reason_of(error), where=source) from error


def _same_file(one: str, other: str) -> bool:
    """Whether two outputs are one file; stdout and devices may be named twice."""
    paths = [Path(each) for each in (one, other)]
    if "-" in (one, other) or any(path.exists() and not path.is_file() for path in paths):
        return False
    return paths[0].resolve() == paths[1].resolve()


def _inputs(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.params:
        value = ctx.params.get(str(param.name))
        named = isinstance(param, click.Argument) or str(getattr(param, "metavar", "")).endswith(FILE)
        if param.name in OUTPUTS or not named:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str):
                yield each.removeprefix("constant:")  # as --arrivals has it


def _status(path: str) -> os.stat_result | None:
    """Status of the file behind a path, `-` being stdin; None if there is no such file."""
    try:
        return os.fstat(sys.stdin.fileno()) if path == "-" else Path(path).stat()
    except (OSError, ValueError):  # a closed stdin, a NUL in the name
        return None


def _is_inside(path: str, folder: str) -> bool:
    places = (Path(path).parent.resolve(), Path(path).resolve().parent)  # of the link, and of its target
    return any(Path(folder).resolve() in (place, *place.parents) for place in places)


def _input_name(path: str) -> str:
    return "on stdin" if path == "-" else path


def _refuse_named_pipe(path: str) -> None:
    """Refuse a named pipe: opening one blocks until a writer comes. A shell's `<(...)` has its writer."""
    found = _status(path)
    if path != "-" and found is not None and stat.S_ISFIFO(found.st_mode) and Path(path).resolve().exists():
        raise InputError("is a named pipe, which may never end; give a file, or /dev/stdin", where=path)


@contextlib.contextmanager
def named_by(paths: Sequence[str]) -> Iterator[None]:
    """Name the first of several inputs in an error that names none.

    Args:
        paths: paths of the inputs, one or more.

    Raises:
        InputError: the error of the body, with the input's name.
    """
    try:
        yield
    except InputError as error:
        if error.where is not None:
            raise
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise InputError(str(error), where=f"{paths[0]}{more}") from error
