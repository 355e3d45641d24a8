"""The folder that a demo writes; `kwiken report` reads it again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cli._output import write_text
from cli.reporting import LoadRow
from kwiken import InputError

TRACES = "traces"
OWN = ("profile.json", "plan.json", "plan-even.json", "demo.json", "load.jsonl", "report.html")


class Folder:
    """Writes each thing in its place.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def make(cls, path: Path) -> Folder:
        """The folder, made where it is missing; what an earlier demo left in it is removed, and nothing else.

        Raises:
            InputError: when it cannot be made or written to; names it.
        """
        try:
            (path / TRACES).mkdir(parents=True, exist_ok=True)
            for name in OWN:
                (path / name).unlink(missing_ok=True)
            for old in (path / TRACES).iterdir():
                if old.name.endswith((".jsonl", ".jsonl.part")):
                    old.unlink()
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", where=str(error.filename or path)
            ) from error
        return cls(path)

    @property
    def traces(self) -> Path:
        """The sink's folder."""
        return self.path / TRACES

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def write(self, name: str, text: str) -> None:
        """Write one of the folder's files.

        Raises:
            InputError: when it cannot be written; names it.
        """
        write_text(str(self.path / name), text)

    def write_rows(self, rows: Iterable[LoadRow]) -> None:
        """Write `load.jsonl`."""
        self.write("load.jsonl", "".join(msgspec.json.encode(row).decode() + "\n" for row in rows))
