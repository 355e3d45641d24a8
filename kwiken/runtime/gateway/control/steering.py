"""Steering of a gateway by an autopilot: plans put in force, and the autopilot's note in the status."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan

PERSON: Final = "person"
AUTOPILOT: Final = "autopilot"
Author = Literal["person", "autopilot"]

Action = Literal["apply", "keep", "widen", "roll_back", "wait"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

Moment = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]  # until the last second of year 9999
MAX_SENTENCE: Final = 400  # characters
MAX_LINES: Final = 20  # of the history, in a note


class SteeredSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Plans that an autopilot puts in force at a gateway.

    Attributes:
        plan: plan of all requests but those of the control share and of the trial; None for none.
        trial_share: share of the requests that get the tried plan, 0 to 1.
        control_share: share of the requests that have no plan, above 0 to 1.
        epoch: number of the leader's lease; a gateway refuses a lower one than it has seen.
    """

    plan: Plan | None
    trial: Plan | None
    trial_share: float
    control_share: float
    epoch: int

    def __post_init__(self) -> None:
        """Check that the shares go together."""
        for name in ("trial_share", "control_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be a share from 0 to 1, not {getattr(self, name)}")
        if self.trial_share + self.control_share > 1:
            raise ValueError("trial_share and control_share must not exceed 1 together")
        if (self.trial is None) != (self.trial_share == 0):
            raise ValueError("trial_share is above 0 where there is a trial, and 0 where there is none")
        if self.epoch < 0:
            raise ValueError(f"epoch must be 0 or more, not {self.epoch}")


class NoteLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One decision of an autopilot.

    Attributes:
        at_s: moment of the decision, seconds since 1970.
        action: `apply`, `keep`, `widen`, `roll_back` or `wait`.
        reason: why, in one sentence.
        plan: digest of the plan that the decision is about; None for none.
    """

    at_s: Moment
    action: Action
    reason: str
    plan: str | None

    def __post_init__(self) -> None:
        """Check the length of the reason."""
        if len(self.reason) > MAX_SENTENCE:
            raise ValueError(f"a reason has at most {MAX_SENTENCE} characters")


class AutopilotNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Present and past decisions of an autopilot.

    Attributes:
        at_s: moment of the note, seconds since 1970.
        sentence: what it does at present and why.
        budget: reissue budget of its plans, as a share of all work.
        limit: requests after which a change of 10% in p99 is told; 0 where that is not known yet.
        changes: number of plans that were tried.
        useless: number of tried plans that were taken back.
        decided: number of decisions by action.
        history: last decisions, oldest first.
    """

    at_s: Moment
    phase: Literal["watching", "trying", "held"]
    sentence: str
    budget: float
    limit: int
    changes: int
    useless: int
    decided: dict[Action, int]
    history: list[NoteLine]

    def __post_init__(self) -> None:
        """Check lengths and the number of lines."""
        if len(self.sentence) > MAX_SENTENCE:
            raise ValueError(f"a sentence has at most {MAX_SENTENCE} characters")
        if len(self.history) > MAX_LINES:
            raise ValueError(f"a history has at most {MAX_LINES} lines")


_READ_SETTING: Final = msgspec.json.Decoder(SteeredSetting)
_READ_NOTE: Final = msgspec.json.Decoder(AutopilotNote)


def read_setting(body: bytes) -> SteeredSetting:
    """Read the body of a request that puts a setting in force.

    Raises:
        InputError: the body is no setting; names the field.
    """
    try:
        return _READ_SETTING.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(str(error), where="setting of the autopilot") from error


def read_note(body: bytes) -> AutopilotNote:
    """Read the body of a request that leaves a note.

    Raises:
        InputError: the body is no note; names the field.
    """
    try:
        return _READ_NOTE.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(str(error), where="note of the autopilot") from error
