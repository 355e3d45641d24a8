"""Origin of a profile: which requests of which traces it was learned from, and what its stages are."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MAX_TEXT: Final = 1000
MAX_DEPTH: Final = 20
MAX_IGNORED: Final = 1000


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a fit chose, so that other traces can be fitted alike.

    Attributes:
        kind: kind of the requests: the first `service:operation` that tells them from others.
        caller: `service:operation` of the spans whose calls are the stages.
        stages: `services`: a stage is a call from one service to another; `spans`: any span below.
        depth: number of levels of calls that became stages, from 1 to 20.
        ignored: operations that were left out of the trees.
    """

    kind: str
    caller: str
    stages: Literal["services", "spans"] = "services"
    depth: int = 1
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check sizes and ranges."""
        for text in (self.kind, self.caller, *self.ignored):
            if not 0 < len(text) <= MAX_TEXT:
                raise ValueError(f"kind, caller and ignored must have 1 to {MAX_TEXT} characters each")
        if len(self.ignored) > MAX_IGNORED:
            raise ValueError(f"ignored must be at most {MAX_IGNORED} operations")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise ValueError(f"depth must be from 1 to {MAX_DEPTH}, not {self.depth}")
