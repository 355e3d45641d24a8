"""Every error of the runtime, in one place; transports map their libraries' errors to these."""

from __future__ import annotations

from collections.abc import Sequence

from kwiken.errors import KwikenError


class RefusedError(KwikenError):
    """The replica did not run the call (connection refused, queue full, stopping), so another may.

    Args:
        message: why.
        full: whether it is because the replica holds as many calls as it may.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class LostError(KwikenError):
    """The call was sent and no answer came; whether it ran is unknown, so only idempotent calls go again."""


class UnfitError(LostError):
    """The replica's answer is not of its stage's type, by another version's code say; the call did run."""


class HandlerError(KwikenError):
    """The stage's own handler raised. Final: another replica would raise it too.

    Attributes:
        stage: whose handler it was.
        kind: name of the exception's type.
        message: the exception's text.
    """

    def __init__(self, stage: str, kind: str, message: str) -> None:
        super().__init__(f"stage {stage!r}: {kind}: {message}")
        self.stage = stage
        self.kind = kind
        self.message = message


class DeadlineError(KwikenError):
    """The request's deadline or a stage's timeout has passed."""


class PlanNotSavedError(KwikenError):
    """A plan that cannot be noted for a gateway that takes over, so it was not put in force."""


class OverloadError(KwikenError):
    """Turned away before any work was done.

    Args:
        message: why.
        retry_after_s: seconds after which another try may fare better.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnavailableError(KwikenError):
    """No replica is left that could take the call.

    Args:
        message: why.
        full: whether it is for want of room: replicas are there, but hold as many calls as they may.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class AllFailedError(ExceptionGroup[Exception], KwikenError):
    """Every attempt of a call failed; holds the error of each, in the order in which they ended."""

    def derive(self, excs: Sequence[Exception], /) -> AllFailedError:  # type: ignore[override]  # no bases
        """Another group of the same kind, as `split` and `subgroup` need it."""
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
    """The error of a call that nobody answered.

    Args:
        stage: whose call it was.
        errors: of its attempts, in the order in which they ended.
        expired_s: how long it was allowed to take, where that is why it ended; None where not.
        asked: ids of the replicas that it went to.
        lost_replicas: replicas that were lost, or hung, with this request.
        withheld: whether it was kept from the last one.
    """
    clue = ""
    if lost_replicas > 1:
        clue = f"; this request may fell what it touches: {lost_replicas} replicas were lost or hung with it" + (
            ", and it was kept from the last one" if withheld else ""
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
