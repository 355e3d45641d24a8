"""Record of an autopilot: plans in force, trials and reasons; resumed after a restart."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument
from kwiken.model.plan.plan import Plan

RECORD_VERSION: Final = 1
MAX_RECORD: Final = 64 << 20  # bytes
MAX_ENTRIES: Final = 500
MAX_REASON: Final = 400  # characters

Action = Literal["apply", "keep", "widen", "roll_back", "wait"]
ACTIONS: Final[tuple[Action, ...]] = ("apply", "keep", "widen", "roll_back", "wait")
Phase = Literal["watching", "trying", "held"]


class LoggedDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One decision, with its reason.

    Attributes:
        at_s: moment of the decision, seconds since 1970.
        action: what was done; `wait` where the loop stopped for a person, or went on after one.
        reason: why, in one sentence.
        plan: digest of the plan that the decision is about; None for no plan.
    """

    at_s: float
    action: Action
    reason: str
    plan: str | None

    def __post_init__(self) -> None:
        """Check the length of the reason."""
        if len(self.reason) > MAX_REASON:
            raise ValueError(f"a reason has at most {MAX_REASON} characters")


class AutopilotRecord(JsonDocument, frozen=True, kw_only=True):
    """State of an autopilot and its history.

    Attributes:
        version: version of the format; must be 1.
        service: name of the service that is steered.
        budget: reissue budget of every plan, as a share of all work.
        phase: `watching` a plan or none, `trying` another one, or `held` because a person acts.
        in_force: plan in force for all but the control share; None for none.
        trial: plan that is tried on a share of the requests; None for none.
        trial_share: share of the requests that get the tried plan, 0 to 1.
        limit: requests after which the present or the last trial ends at the latest.
        since_change: number of requests since the last change began.
        changes: number of plans that were tried.
        useless: number of tried plans that were taken back.
        useless_in_row: number of tried plans that were taken back since one was kept.
        decided: number of decisions by action, forgotten ones too.
        entries: decisions, oldest first; the oldest are forgotten beyond 500.
    """

    FORMAT: ClassVar = DocumentFormat(RECORD_VERSION, MAX_RECORD, indented=False)

    version: int = RECORD_VERSION
    service: str
    budget: float
    phase: Phase = "watching"
    in_force: Plan | None = None
    trial: Plan | None = None
    trial_share: float = 0.0
    limit: int = 0
    since_change: int = 0
    changes: int = 0
    useless: int = 0
    useless_in_row: int = 0
    decided: dict[Action, int] = msgspec.field(default_factory=dict)
    entries: tuple[LoggedDecision, ...] = ()

    def __post_init__(self) -> None:
        """Check the shares, and that the phase fits the plans."""
        if not 0 < self.budget <= 1:
            raise ValueError(f"budget must be a share above 0 and at most 1, not {self.budget}")
        if not 0 <= self.trial_share <= 1:
            raise ValueError(f"trial_share must be a share from 0 to 1, not {self.trial_share}")
        if (self.trial is not None) != (self.phase == "trying"):
            raise ValueError("a plan is tried in the phase `trying` and in no other")
        counts = (self.since_change, self.changes, self.useless, self.useless_in_row, *self.decided.values())
        if min(self.limit, *counts) < 0:
            raise ValueError("numbers of requests and of changes must be 0 or more")
        for plan in (self.in_force, self.trial):
            if plan is not None and plan.service != self.service:
                raise ValueError(f"a plan is for service {plan.service!r}, not {self.service!r}")

    def check(self, where: str) -> None:
        """Check the number of decisions."""
        if len(self.entries) > MAX_ENTRIES:
            raise InputError(
                f"must be at most {MAX_ENTRIES}, not {len(self.entries)}", where=f"{where}: entries"
            )

    def with_entry(self, entry: LoggedDecision) -> AutopilotRecord:
        """The record with one more decision; one that only repeats the last one takes its place."""
        before = self.entries
        if before and entry.action == "keep" and (before[-1].action, before[-1].plan) == ("keep", entry.plan):
            before = before[:-1]
        decided = self.decided | {entry.action: self.decided.get(entry.action, 0) + 1}
        return msgspec.structs.replace(self, decided=decided, entries=(*before, entry)[-MAX_ENTRIES:])
