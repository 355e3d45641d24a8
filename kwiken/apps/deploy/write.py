"""Folder of a deployment: the files of an image with its wheels, and others as they are."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.apps.console.output import note, reason_of, write_text
from kwiken.apps.deploy.code import Code
from kwiken.apps.deploy.installed import Pins
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB, read_file
from kwiken.export.deployments.image import ImageContent, dockerfile, dockerignore

MADE: Final = "# Made by kwiken export."
MARK: Final = "# Made by kwiken export; a Dockerfile without this line is left as it is."
MARKS: Final = ("Made by kwiken export", "Made by: kwiken export")  # of files that have comments
MARKED: Final = ("compose.yaml", "kustomization.yaml")  # of which one tells who made files without comments
MAX_FILE: Final = 16 * MIB
MAX_HEADER: Final = 12  # lines in which a mark is looked for
LOCK: Final = "requirements.lock"
LOAD_LOCK: Final = "locust.lock"
WHEELS: Final = "wheels"


@dataclass(frozen=True)
class ImageFiles:
    """Files of an image in a folder of a deployment.

    Attributes:
        folder: folder that they are written to.
        context: folder that is sent to the builder, which holds the other one or is the same.
    """

    folder: Path
    context: Path

    @property
    def kept(self) -> bool:
        """Whether there is a Dockerfile of the user's own, which is left as it is."""
        file = self.folder / "Dockerfile"
        return file.exists() and not _made(file)

    def builds(self, target: str) -> bool:
        """Whether the Dockerfile of the user's own has a target of this name."""
        text = read_file(self.folder / "Dockerfile", MAX_FILE).decode(errors="replace")
        return re.search(rf"^FROM\s.*\sAS\s+{target}\s*$", text, re.IGNORECASE | re.MULTILINE) is not None

    def path(self, name: str) -> str:
        """Path of a file of the folder, relative to the context.

        Raises:
            InputError: the folder does not lie below the context.
        """
        found = (self.folder / name).resolve()
        try:
            return found.relative_to(self.context.resolve()).as_posix()
        except ValueError as error:
            raise InputError(
                f"must be this folder or lie below it ({self.context}): all of an image is sent from there",
                where=f"-o {self.folder}",
            ) from error

    def write(self, code: Code, pins: Pins, load: Sequence[str] = ()) -> None:
        """Write the Dockerfile, what it installs, and what is sent to its builder.

        Args:
            load: pinned dependencies of an image with Locust; empty for none.

        Raises:
            InputError: a file cannot be written; names it.
        """
        folder, wheels = self.folder, self.folder / WHEELS
        make_folder(folder)
        if wheels.is_dir() and (folder / LOCK).exists() and _made(folder / LOCK):
            for old in wheels.glob("*.whl"):
                old.unlink()
        if pins.wheels:
            make_folder(wheels)
            for wheel in pins.wheels:
                try:
                    if (wheels / wheel.name).exists() and (wheels / wheel.name).samefile(wheel):
                        continue
                    shutil.copyfile(wheel, wheels / wheel.name)
                except OSError as error:
                    raise InputError(f"cannot be copied: {reason_of(error)}", where=str(wheel)) from error
        content = ImageContent(
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            requirements=self.path(LOCK),
            wheels=self.path(WHEELS) if pins.wheels else None,
            code=code.paths,
            load=self.path(LOAD_LOCK) if load else None,
        )
        write_text(str(folder / "Dockerfile"), f"{MARK}\n{dockerfile(content)}")
        write_text(str(folder / "Dockerfile.dockerignore"), f"{MADE}\n{dockerignore(content)}")
        for name, pinned in ((LOCK, pins.lines), (LOAD_LOCK, load)):
            if pinned:
                write_text(str(folder / name), f"{MADE}\n" + "".join(f"{line}\n" for line in pinned))


def refuse_foreign(folder: Path, files: Mapping[str, str], *, image: bool) -> None:
    """Refuse to overwrite files that this command did not make.

    Args:
        files: text of each file that is to be written, by its path relative to the folder.
        image: whether files of an image are written too.

    Raises:
        InputError: there is such a file; names it.
    """
    own = any((folder / name).exists() and _made(folder / name) for name in MARKED)
    texts: dict[str, str | None] = dict(files)
    if image:
        texts |= dict.fromkeys((LOCK, LOAD_LOCK, "Dockerfile.dockerignore"))
    for name, text in texts.items():
        path = folder / name
        has_comments = not name.endswith((".json", ".toml"))
        if not path.exists() or _made(path) or (own and not has_comments):
            continue
        if text is None or read_file(path, MAX_FILE).decode(errors="replace") != text:
            raise InputError(
                "exists, and kwiken export did not make it; write to another folder, or move it away",
                where=str(path),
            )


def _made(path: Path) -> bool:
    """Whether this command made a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        text = read_file(path, MAX_FILE).decode(errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {reason_of(error)}", where=str(path)) from error
    return any(mark in line for line in text.splitlines()[:MAX_HEADER] for mark in MARKS)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files into a folder, which is made if there is none, and note each.

    Args:
        files: text of each file by its path relative to the folder.

    Raises:
        InputError: a file cannot be written; names it.
    """
    for name, text in files.items():
        path = folder / name
        make_folder(path.parent)
        write_text(str(path), text)
    note(f"written to {folder}: {', '.join(files)}")


def make_folder(path: Path) -> None:
    """Make a folder with those above it, unless it exists.

    Raises:
        InputError: it cannot be made; says why.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {reason_of(error)}", where=str(path)) from error
