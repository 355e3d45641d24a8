"""Errors of the runtime; transports map the errors of their libraries to these."""

from __future__ import annotations

from collections.abc import Sequence

from kwiken.base.errors import KwikenError


class RefusedError(KwikenError):
    """The replica did not run the call (connection refused, queue full, stopping), so another one may.

    Args:
        full: whether the replica holds its largest number of calls.
        pause_s: time, seconds, during which the replica asks for no calls; 0 if it does not ask.
    """

    def __init__(self, message: str, *, full: bool = False, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.full = full
        self.pause_s = pause_s


class LostError(KwikenError):
    """The call was sent and no answer came; it may have run, so only idempotent calls are sent again.

    Args:
        pause_s: time, seconds, during which the replica asks for no calls; 0 if it does not ask.
    """

    def __init__(self, message: str, *, pause_s: float = 0.0) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class AttemptTimeoutError(LostError):
    """The attempt took longer than its stage allows one attempt; it may still run at the replica."""


class UnfitError(LostError):
    """The replica's answer does not have the stage's type, for example from other code; the call did run."""


class HandlerError(KwikenError):
    """The stage's handler raised. Final, unless its process is at fault: another would raise too."""

    def __init__(self, stage: str, kind: str, message: str) -> None:
        super().__init__(f"stage {stage!r}: {kind}: {message}")
        self.stage = stage
        self.kind = kind
        self.message = message

    @property
    def of_process(self) -> bool:
        """Whether the replica's process is at fault: it has no memory left, and another one may have some."""
        return self.kind == MemoryError.__name__


class DeadlineError(KwikenError):
    """The request's deadline or a stage's timeout has passed."""


class PlanNotSavedError(KwikenError):
    """The plan could not be saved for a gateway that takes over, so it was not put in force."""


class OverloadError(KwikenError):
    """The request was turned away before any work was done.

    Args:
        retry_after_s: seconds after which a retry may succeed.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoppingError(OverloadError):
    """The request was turned away because the gateway is stopping, so another gateway may take it."""


class UnavailableError(KwikenError):
    """No replica is left that could take the call.

    Args:
        full: whether replicas are available, but hold their largest number of calls.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class AllFailedError(ExceptionGroup[Exception], KwikenError):
    """Every attempt of a call failed; holds the error of each, in the order in which the attempts ended."""

    def derive(self, excs: Sequence[Exception], /) -> AllFailedError:  # type: ignore[override]  # no bases
        """Create another group of the same kind, as `split` and `subgroup` need it."""
        return AllFailedError(self.message, excs)


def failed_call(
    stage: str,
    errors: list[Exception],
    *,
    expired_s: float | None,
    asked: Sequence[str] = (),
    lost_replicas: int = 0,
    withheld: bool = False,
) -> Exception:
    """Build the error of a call that no attempt answered.

    Args:
        errors: errors of the attempts, in the order in which the attempts ended.
        expired_s: time that the call was allowed to take, seconds, if it ended by that; else None.
        asked: ids of the replicas that the call was sent to.
        lost_replicas: number of replicas that were lost or hung while serving this request.
        withheld: whether the call was withheld from the last healthy replica.
    """
    clue = ""
    if lost_replicas > 1:
        clue = f"; this request may crash replicas: {lost_replicas} were lost or hung while serving it" + (
            ", so it was not sent to the last one" if withheld else ""
        )
    if expired_s is not None:
        who = f" from {', '.join(asked)}" if asked else ""
        expired = DeadlineError(f"stage {stage!r}: no answer{who} within {round(expired_s * 1000)} ms{clue}")
        expired.__cause__ = errors[0] if errors else None
        return expired
    refusals = [error for error in errors if isinstance(error, RefusedError)]
    if len(refusals) == len(errors):
        first = str(errors[0]).removeprefix(f"stage {stage!r}: ")
        unavailable = UnavailableError(
            f"stage {stage!r}: all {len(errors)} replicas tried refused the call; the first: {first}",
            full=any(refusal.full for refusal in refusals),
        )
        unavailable.__cause__ = errors[0]
        return unavailable
    if len(errors) > 1:
        return AllFailedError(f"stage {stage!r}: every attempt failed{clue}", errors)
    if clue and isinstance(errors[0], LostError):
        lost = LostError(f"{errors[0]}{clue}")
        lost.__cause__ = errors[0]
        return lost
    return errors[0]
