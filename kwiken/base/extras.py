"""Optional libraries by the extra that brings them, and the error that names a missing extra."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from kwiken.base.errors import MissingExtraError

_PLAN: Final = {
    "numpy": "NumPy",
    "scipy": "SciPy",
    "networkx": "networkx",
    "yaml": "PyYAML",
    "joblib": "joblib",
}
# By extra, as `pyproject.toml` has them: import names and common names. The first missing one is told.
EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    "plan": _PLAN,
    "report": {"jinja2": "Jinja2", **_PLAN},
    "load": {
        "locust": "Locust",
        "gevent": "gevent",
        "geventhttpclient": "geventhttpclient",
        "numpy": "NumPy",
    },
    "httpx": {"httpx": "HTTPX"},
    "batch": {"distributed": "Dask", "zstandard": "zstandard", **_PLAN},
    "otel": {"opentelemetry": "the OpenTelemetry SDK"},
}


def require(user: str, *extras: str) -> None:
    """Check that the libraries of some extras are installed, without importing any.

    Args:
        user: what needs them, as whoever calls it knows it.

    Raises:
        MissingExtraError: names the user, a library that is missing, and the extras.
    """
    for extra in extras:
        for library in EXTRAS[extra]:
            if find_spec(library) is None:
                raise _missing(user, library, extras)


@contextmanager
def needs(user: str, extra: str | None = None) -> Iterator[None]:
    """Imports of optional libraries: one that fails names the extra.

    Args:
        user: what needs them, as whoever calls it knows it.
        extra: key of `EXTRAS`; None takes the first that brings the missing library.

    Raises:
        MissingExtraError: in place of the failed import of a library that an extra brings.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        bringing = [name for name, libraries in EXTRAS.items() if library in libraries]
        if not bringing:
            raise
        raise _missing(user, library, [extra if extra in bringing else bringing[0]]) from error


def _missing(user: str, library: str, extras: tuple[str, ...] | list[str]) -> MissingExtraError:
    told = next(EXTRAS[extra][library] for extra in extras if library in EXTRAS[extra])
    return MissingExtraError(f'{user} needs {told}: pip install "kwiken[{",".join(extras)}]"', name=library)
