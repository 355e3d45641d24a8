"""Division of an open-loop load over the processes of Locust: one sender in each, with an equal share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Placed = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Share:
    """Part of the load of one user class that one process sends.

    Attributes:
        users: number of users that Locust was asked for, over all processes; each stands for one schedule.
        workers: number of processes that share the load, 1 or more.
        index: number of this process among them, from 0.
    """

    users: int = 1
    workers: int = 1
    index: int = 0

    @property
    def level(self) -> float:
        """Factor on the rate that was stated for one user."""
        return self.users / self.workers


def one_sender_each(
    placed: Placed, classes: Iterable[str]
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Place one user of each open-loop class in every process, however many were asked for.

    Args:
        placed: number of users by process and user class, as Locust would place them.
        classes: names of the open-loop classes; others keep their places.

    Returns:
        The changed places, and how many users of each open-loop class were asked for.
    """
    asked = {name: sum(counts.get(name, 0) for counts in placed.values()) for name in classes}
    senders = {name: int(count > 0) for name, count in asked.items()}
    return {worker: {**counts, **senders} for worker, counts in placed.items()}, asked
