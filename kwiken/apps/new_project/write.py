"""Writer of a new project: a service of three stages, a test, a Locust file and a README."""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from kwiken.apps.console.output import reason_of, write_text
from kwiken.base.errors import InputError

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
PLACEHOLDER: Final = "SERVICE_NAME"
SUFFIX: Final = ".txt"  # of templates, so that no tool takes them for code of this package


def write_project(name: str, folder: Path) -> None:
    """Write a project into a new folder.

    Args:
        name: name of the service and of its module.
        folder: folder of the project, which must not exist.

    Raises:
        InputError: the name cannot be a module's, another module has it, or the folder exists or cannot be
            written.
    """
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InputError(
            "must be a lower-case letter, then at most 39 lower-case letters, digits and _, and no keyword "
            "of Python",
            where=f"name {name!r}",
        )
    if not folder.exists() and importlib.util.find_spec(name) is not None:
        raise InputError("is a module that is installed, which yours would hide", where=f"name {name!r}")
    try:
        folder.mkdir()
    except FileExistsError as error:
        raise InputError("exists; choose another name, or remove it", where=str(folder)) from error
    except OSError as error:
        raise InputError(f"cannot be made: {reason_of(error)}", where=str(folder)) from error
    for template in sorted(files(__package__).joinpath("templates").iterdir(), key=lambda each: each.name):
        file = template.name.removesuffix(SUFFIX).replace("service", name)
        write_text(str(folder / file), template.read_text(encoding="utf-8").replace(PLACEHOLDER, name))
