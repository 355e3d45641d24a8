"""Jobs of a module as collections of Dask, and workers of a scheduler by rack."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.base.extras import needs

CONNECT_S: Final = 5.0  # for a scheduler to answer
RACK_RESOURCE: Final = "rack:"  # start of the name of the resource that says a worker's rack


@dataclass(frozen=True)
class DaskJobs:
    """Jobs that a module defines.

    Attributes:
        jobs: by name, a function that returns a collection of Dask; it gets the job's data, if there is some.
        data: by name, a function that returns the collection of the job's input, which is kept on its racks.
    """

    jobs: Mapping[str, Callable[..., Any]]
    data: Mapping[str, Callable[[], Any]]

    def job(self, name: str) -> Callable[..., Any] | None:
        """Function of a run; the second run of a job is named `JOB (2)` and so on."""
        return self.jobs.get(self._key(name))

    def data_of(self, name: str) -> Callable[[], Any] | None:
        """Function of a run's data; None for none."""
        return self.data.get(name) or self.data.get(self._key(name))

    def unplanned(self, planned: Iterable[str]) -> list[str]:
        """Names of the jobs of which no run is planned.

        Args:
            planned: names of the runs of a plan.
        """
        keys = {self._key(name) for name in planned}
        return [name for name in self.jobs if name not in keys]

    def _key(self, name: str) -> str:
        return name if name in self.jobs else _plain(name)


def _plain(name: str) -> str:
    base, separator, number = name.rpartition(" (")
    return base if separator and number.removesuffix(")").isdigit() else name


def load_jobs(module: str) -> DaskJobs:
    """Jobs of a module: its mapping `JOBS`, and `DATA` if it has one.

    The current folder is searched first.

    Raises:
        InputError: the module is missing, fails, or has no such mapping.
    """
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    if module.startswith(".") or module.endswith(".py"):
        raise InputError("write the name of a module, as Python imports it: my_jobs", where=module)
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot be imported: {type(error).__name__}: {error}", where=module) from error
    mappings = []
    for name in ("JOBS", "DATA"):
        mapping = getattr(found, name, {} if name == "DATA" else None)
        if not isinstance(mapping, Mapping) or not all(
            isinstance(key, str) and callable(value) for key, value in mapping.items()
        ):
            raise InputError(
                f"{name} must be a mapping from the name of a job to a function that returns a collection",
                where=module,
            )
        mappings.append(mapping)
    return DaskJobs(*mappings)


def connect(address: str) -> Any:
    """Client of a scheduler, to be awaited.

    Args:
        address: HOST:PORT of the scheduler.
    """
    with needs("batch run", "batch"):
        from distributed import Client

    return Client(address, asynchronous=True, timeout=CONNECT_S)


async def workers_of(client: Any) -> Mapping[str, Any]:
    """Workers that a scheduler has now, by address.

    Args:
        client: asynchronous client of the scheduler.
    """
    told: Mapping[str, Mapping[str, Any]] = await client.scheduler.identity(n_workers=-1)
    return told["workers"]


def workers_by_rack(workers: Mapping[str, Any]) -> dict[str, set[str]]:
    """Addresses of the workers of each rack.

    Args:
        workers: what `workers_of` returns, by address.
    """
    found: dict[str, set[str]] = {}
    for address, worker in workers.items():
        for resource in worker.get("resources", {}):
            if resource.startswith(RACK_RESOURCE):
                found.setdefault(resource.removeprefix(RACK_RESOURCE), set()).add(address)
    return found
