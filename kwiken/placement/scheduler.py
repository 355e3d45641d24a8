"""Protocol of schedulers: what places the replicas of one workload."""

from __future__ import annotations

from typing import Protocol

from kwiken.placement.sizing import Sizing


class Scheduler(Protocol):
    """Places workloads, one after another.

    Attributes:
        name: name of the scheduler, as in a placement's document.
    """

    @property
    def name(self) -> str:
        """Name of the scheduler."""

    def place(self, sizing: Sizing) -> None:
        """Add replicas to a workload, as close to its target as the scheduler comes.

        Args:
            sizing: replicas so far, with the request and the ledger that replicas are drawn from.
        """

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether a workload has what this scheduler set out to give it.

        Args:
            sizing: replicas after `place`.
        """
