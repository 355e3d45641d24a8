"""Actions of the adaptation, each with its reason; the caller carries them out in their order."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Action on a workload, or a finding about one.

    Attributes:
        reason: why, as one phrase.
    """

    workload: str
    reason: str

    @property
    @abstractmethod
    def line(self) -> str:
        """Action and reason as one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAction(Action):
    """Action on one replica.

    Attributes:
        key: name of the replica in the adaptation.
    """

    key: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(ReplicaAction):
    """Start a replica.

    Attributes:
        cores: number of cores, for extra work too.
    """

    cores: float

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: start {self.key} on {self.node} with {self.cores:.3g} cores: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(ReplicaAction):
    """Change the number of cores of a replica that runs.

    Attributes:
        cores: number of cores, for extra work too.
    """

    cores: float

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: give {self.key} on {self.node} {self.cores:.3g} cores: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(ReplicaAction):
    """Stop a replica in good order.

    Attributes:
        after: names of the replicas that take its place; it stays unless all of them could be started.
    """

    after: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: stop {self.key} on {self.node}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage(Action):
    """The nodes have no room for what a workload needs; nothing is to be done but to say so."""

    @property
    def line(self) -> str:
        """Reason as one line."""
        return f"{self.workload}: no room: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(Action):
    """The prediction of a workload is corrected; actions that follow from that come after this one."""

    @property
    def line(self) -> str:
        """Reason as one line."""
        return f"{self.workload}: prediction corrected: {self.reason}"
