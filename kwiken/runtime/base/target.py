"""Loader of the service that a module, a Python file or a YAML file defines; errors are one line each."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import MIB, read_file
from kwiken.model.service.service import Service

YAML_SUFFIXES: Final = (".yaml", ".yml")
MAX_YAML: Final = 4 * MIB


def load_target(target: str) -> Service:
    """Load the service that `MODULE:SERVICE`, `FILE.py:SERVICE` or `FILE.yaml` names.

    Args:
        target: name of the service; its module is imported. A file in Python is imported as the module that
            it is of: by its packages, below this folder or an importable one. A file in YAML holds a service
            whose stages are all served by others; nothing is imported.

    Raises:
        InputError: the file, the module or the name in it is missing, is not a Service, or fails to import;
            names the place, of a file in YAML with its line.
        DefinitionError: the service cannot be run.
    """
    if target.endswith(YAML_SUFFIXES):
        from kwiken.model.service.codec import foreign_service_from_yaml

        return foreign_service_from_yaml(_yaml(target), where=target)
    module_name, colon, attribute = target.partition(":")
    if not (colon and module_name and attribute):
        raise InputError(
            "must be MODULE:SERVICE, for example kwiken.services.search:search, or FILE.yaml",
            where=repr(target),
        )
    if module_name.endswith(".py"):
        module_name = _module_of(module_name)
    if not all(part.isidentifier() for part in module_name.split(".")):
        near = module_name.strip("/").replace("/", ".")
        hint = f"; try {near}:{attribute}" if all(part.isidentifier() for part in near.split(".")) else ""
        raise InputError(f"{module_name!r} is not a module's name{hint}", where=repr(target))
    module = _import(module_name)
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise InputError(f"has no {attribute!r}; {_services_of(module)}", where=f"module {module_name}")
        value = getattr(value, part)
    if not isinstance(value, Service):
        kind = type(value).__name__
        raise InputError(f"is a {kind}, not a Service; {_services_of(module)}", where=target)
    value.check()
    return value


def _yaml(path: str) -> bytes:
    try:
        return read_file(path, MAX_YAML)
    except FileNotFoundError as error:
        raise InputError("there is no such file", where=path) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(str(error.strerror if isinstance(error, OSError) else error), where=path) from error


def _module_of(file: str) -> str:
    """Name of the module that a file is, by the packages around it."""
    path = Path(file).resolve()  # through links, so that one file is one module
    if not path.is_file():
        raise InputError("there is no such file", where=file)
    parts, folder = [path.stem], path.parent
    importable = {Path(entry).resolve() for entry in sys.path}
    # Up to the folder that is searched for modules; each between is a package, with or without `__init__.py`.
    while (folder / "__init__.py").is_file() or (
        folder not in importable and folder.name.isidentifier() and importable & {*folder.parents}
    ):
        parts.insert(0, folder.name)
        folder = folder.parent
    if folder not in importable:
        raise InputError(f"cannot be imported from here; run kwiken in {path.parent}", where=file)
    return ".".join(parts)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except KwikenError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = str(Path.cwd())
            too = f" (looked in {here} too)" if here in sys.path else ""
            raise InputError(f"there is no such module{too}", where=f"module {name}") from error
        raise InputError(_failure(error), where=f"module {name}") from error
    except (Exception, SystemExit) as error:
        raise InputError(_failure(error), where=f"module {name}") from error


def _failure(error: BaseException) -> str:
    """Reason why a module fails to import, with the last place outside the import machinery."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    place = (
        f" at {frames[-1].filename}:{frames[-1].lineno}" if frames and frames[-1].filename != __file__ else ""
    )
    if isinstance(error, SyntaxError):
        place = f" at {error.filename}:{error.lineno}"
        return f"cannot be imported: {error.msg}{place}"
    return f"cannot be imported: {type(error).__name__}: {error}{place}"


def _services_of(module: Any) -> str:
    found = [name for name, value in vars(module).items() if isinstance(value, Service)]
    return f"its services: {', '.join(found)}" if found else "it defines no Service"
