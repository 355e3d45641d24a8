"""Input and output of verbs: bounded file access, and lines, JSON, tables and progress bars for the user.

Verbs print only through `say`, `note`, `print_table` and `print_json`. Names in the output may come from
anywhere: control characters are escaped, so that no name can steer the terminal or forge a line.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwiken.apps.console.process import silence
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB, read_file
from kwiken.base.printable import printable, printable_json

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress

MAX_LINE: Final = 10_000  # characters of one printed line
WIDTH: Final = 120  # characters of a line of a table where the output is no terminal
MAX_CELL: Final = 1000  # characters of one cell of a table

IF_USUAL: Final = "if a copy is as quick as a usual call"  # where no trace shows that copies are independent


def read_text(path: str, max_bytes: int) -> str:
    """Read a whole text file; `-` is stdin.

    Args:
        max_bytes: size of the largest file accepted, in bytes.

    Raises:
        InputError: names the file: missing, a folder, empty, too large, not text in UTF-8.
    """
    name = "<stdin>" if path == "-" else path
    data = _read(path, name, max_bytes)
    if not data or data.isspace():
        raise InputError("is empty", where=name)
    if b"\0" in data:
        raise InputError("is binary, not text", where=name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", where=f"{name}:{line}") from error


def _read(path: str, name: str, max_bytes: int) -> bytes:
    try:
        if path != "-":
            return read_file(path, max_bytes)
        data = sys.stdin.buffer.read(max_bytes + 1)
    except IsADirectoryError as error:
        raise InputError("is a folder; a file is needed", where=name) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(reason_of(error), where=name) from error
    if len(data) > max_bytes:
        raise InputError(f"is larger than {max_bytes / MIB:g} MiB, the most that is read", where=name)
    return data


def reason_of(error: OSError | ValueError) -> str:
    """Reason why a file cannot be read or written, as text for the user."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def check_writable(path: str) -> None:
    """Refuse a file that `write_text` could not write, before the work whose result it is to hold.

    Args:
        path: file that may exist or not, a device, or `-` for stdout.

    Raises:
        InputError: names the file, in the words of `write_text`.
    """
    if path == "-":
        return
    from pathlib import Path

    with _named_errors(path):
        target = Path(path)
        target = target.resolve() if target.is_symlink() else target
        if target.is_dir():
            raise IsADirectoryError
        if target.exists() and not target.is_file():
            return  # a device or a pipe, whose folder is not written to
        if not stat.S_ISDIR(target.parent.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write_text(path: str, text: str) -> None:
    """Write a file atomically; `-` is stdout. Devices and pipes are written to directly.

    Raises:
        InputError: names the file when it cannot be written.
    """
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from pathlib import Path

    with _named_errors(path):
        target = Path(path)
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_text(text, encoding="utf-8")
            return
        _replace(target.resolve() if target.is_symlink() else target, text)


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Turn the errors of a file that is written into errors that name the file."""
    try:
        yield
    except IsADirectoryError as error:
        raise InputError("is a folder; a file is needed", where=path) from error
    except FileNotFoundError as error:
        raise InputError("its folder does not exist", where=path) from error
    except RuntimeError as error:
        raise InputError("is a link that leads to itself", where=path) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {reason_of(error)}", where=path) from error


def _replace(target: Path, text: str) -> None:
    """Write a temporary file beside the target and rename it: readers see the old or the new file whole."""
    import tempfile

    if target.is_dir():
        raise IsADirectoryError
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    written = target.parent / temporary  # an absolute path
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        written.chmod(mode)
        written.replace(target)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def room_in(path: Path) -> int:
    """Free bytes in a folder, which need not exist yet."""
    import shutil

    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; NaN and infinity become null, because JSON has neither."""
    import json

    import msgspec

    text = json.dumps(_finite(msgspec.to_builtins(value)), indent=1, ensure_ascii=False)
    sys.stdout.write(printable_json(text) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    to_stderr: bool = False,
    apart: bool = False,
    width: int = WIDTH,
) -> None:
    """Print a table, on stdout by default; columns after the first are aligned right.

    Args:
        title: line above the table; empty for none.
        rows: rows of cells, each as long as `columns`.
        to_stderr: whether the table goes to stderr, because stdout carries a document such as the plan.
        apart: whether an empty line stands before it.
        width: characters that a line may have where the output is no terminal.
    """
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(
            Text(printable(column)), justify="left" if position == 0 else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(cell, most=MAX_CELL)) for cell in row))
    stream = sys.stderr if to_stderr else sys.stdout
    shown = stream.isatty()
    drawn = io.StringIO()  # rich ends the process if it writes into a closed pipe itself
    console = Console(
        file=drawn,
        width=Console(file=stream).width if shown else width,
        force_terminal=shown,
        highlight=False,
    )
    if apart:
        console.print()
    if title:
        console.print(Text(printable(title, most=MAX_LINE)))
    console.print(table)
    if to_stderr:
        _tell(drawn.getvalue())
    else:
        sys.stdout.write(drawn.getvalue())


def say(*lines: str) -> None:
    """Print results on stdout.

    Args:
        lines: texts, each printed as one line: line breaks in a text are escaped.
    """
    sys.stdout.write(_lines(lines))


def note(*lines: str) -> None:
    """Print remarks on stderr; a closed or full stderr is no failure.

    Args:
        lines: texts, each printed as one line: line breaks in a text are escaped.
    """
    _tell(_lines(lines))


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{printable(line, most=MAX_LINE)}\n" for line in lines)


def _tell(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def note_written(out: str | None) -> None:
    """Note the file that a verb's result was written to, or that no file was."""
    if out is None:
        note("not written: give -o FILE to keep it")
    elif out != "-":
        note(f"written to {out}")


class Bar:
    """Progress bar; does nothing if stderr is not a terminal."""

    def __init__(self, progress: Progress | None, label: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total) if progress is not None else None

    def advance(self, amount: float = 1) -> None:
        """Advance the bar by an amount."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, amount)

    def update(self, done: float, *, total: float | None = None, label: str | None = None) -> None:
        """Set the amount done, and optionally the total or the label."""
        if self._progress is not None and self._task is not None:
            settings: dict[str, Any] = {"completed": done}
            if total is not None:
                settings["total"] = total
            if label is not None:
                settings["description"] = label
            self._progress.update(self._task, **settings)


@contextlib.contextmanager
def progress(label: str, *, total: float | None = None) -> Iterator[Bar]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal.

    Args:
        total: amount of a complete bar; None if it is not known yet.
    """
    if not sys.stderr.isatty():
        yield Bar(None, label, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Bar(bars, label, total)
