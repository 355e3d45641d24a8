"""Actions of the adaptation, each with its reason; the caller carries them out in their order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a replica.

    Attributes:
        key: name of the replica in the adaptation.
        cores: number of cores, for extra work too.
        reason: why, as one phrase.
    """

    workload: str
    key: str
    node: str
    cores: float
    reason: str

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: start {self.key} on {self.node} with {self.cores:.3g} cores: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Change the number of cores of a replica that runs.

    Attributes:
        key: name of the replica in the adaptation.
        cores: number of cores, for extra work too.
        reason: why, as one phrase.
    """

    workload: str
    key: str
    node: str
    cores: float
    reason: str

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: give {self.key} on {self.node} {self.cores:.3g} cores: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop a replica in good order.

    Attributes:
        key: name of the replica in the adaptation.
        reason: why, as one phrase.
        after: names of the replicas that take its place; it stays unless all of them could be started.
    """

    workload: str
    key: str
    node: str
    reason: str
    after: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"{self.workload}: stop {self.key} on {self.node}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The nodes have no room for what a workload needs; nothing is to be done but to say so.

    Attributes:
        reason: what is needed and what there is, as one phrase.
    """

    workload: str
    reason: str

    @property
    def line(self) -> str:
        """Reason as one line."""
        return f"{self.workload}: no room: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The prediction of a workload is corrected; actions that follow from that come after this one.

    Attributes:
        reason: what was measured and what is believed now, as one phrase.
    """

    workload: str
    reason: str

    @property
    def line(self) -> str:
        """Reason as one line."""
        return f"{self.workload}: prediction corrected: {self.reason}"


Action = Start | Resize | Stop | Shortage | Revision
