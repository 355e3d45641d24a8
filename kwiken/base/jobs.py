"""Independent jobs of a large computation, which may run in other processes or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# A module-level function with its arguments: its result does not depend on where it runs.
Job = tuple[Callable[..., Any], tuple[Any, ...]]
# Runs jobs, for example in other processes, and gives their results in the order of the jobs.
Spread = Callable[[Sequence[Job]], Iterable[Any]]


def one_by_one(jobs: Sequence[Job]) -> Iterator[Any]:
    """Run jobs in this process, in order, each when its result is asked for."""
    for function, arguments in jobs:
        yield function(*arguments)
