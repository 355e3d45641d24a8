"""Compiled stage: a stage's definition with the policies of one plan, as the engine reads them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import msgspec

from kwiken.model.plan.ledger_terms import only_prompt_earn
from kwiken.model.plan.plan import PartialPolicy
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.decisions.delays.followed_delay import FollowedDelay
from kwiken.runtime.decisions.stage_state import StageState


@dataclass(frozen=True, slots=True)
class ReissueRule:
    """Rule for copies of the calls of a stage; by default none are sent. Times in seconds.

    Attributes:
        after: age of a call at which a copy may be sent; infinite for never.
        probability: share of the calls of that age that get a copy, 0 to 1.
        refill: age below which a success fills the stage's account.
        followed: delay that takes the place of `after`, and of a finite `refill`; None for a fixed one.
        max_body: largest body of a call that is copied, bytes; infinite for any.
    """

    after: float = inf
    probability: float = 0.0
    refill: float = inf
    followed: FollowedDelay | None = None
    max_body: float = inf

    @classmethod
    def of(cls, policy: Reissue | None) -> ReissueRule:
        """Rule of a reissue policy; calls get no copies without one."""
        if policy is None:
            return cls()
        after, unset = policy.after_ms / 1000, msgspec.UNSET
        return cls(
            after,
            policy.probability,
            refill=after if only_prompt_earn(policy) else inf,
            followed=FollowedDelay(policy.follow, after) if policy.follow is not unset else None,
            max_body=policy.max_body_bytes if policy.max_body_bytes is not unset else inf,
        )

    @property
    def present(self) -> float:
        """Present age of a call at which a copy may be sent, seconds; infinite for never."""
        return self.after if self.followed is None else self.followed.seconds

    def follow(self, took: float) -> float:
        """Let the delay follow an answered call; returns the age below which that call fills the account.

        Args:
            took: latency of the whole call, seconds.
        """
        followed = self.followed
        if followed is None:
            return self.refill
        refill = followed.seconds if self.refill < inf else inf
        followed.learn(took)
        return refill


@dataclass(frozen=True, slots=True)
class CatchUpRule:
    """Help that a stage gives to late requests; by default none.

    Attributes:
        after: age of a request, seconds, from which on it is helped; infinite for never.
        copies: whether calls of late requests get a copy.
        threads: threads for calls of late requests, 1 or more.
        levels: priority levels that calls of late requests gain, 0 or more.
    """

    after: float = inf
    copies: bool = False
    threads: int = 1
    levels: int = 0


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """Time limits of a stage's calls, seconds.

    Attributes:
        answer: longest latency of a call.
        blame: age at which a call without an answer counts against its replica.
        hang: age at which a call without an answer is sent again; infinite where it may not run twice.
        attempt: age at which one attempt has failed; None for never.
    """

    answer: float
    blame: float
    hang: float
    attempt: float | None = None

    @classmethod
    def of(cls, stage: Stage) -> CallTimeouts:
        """Time limits of a stage as defined."""
        timeout = stage.timeout_ms / 1000
        # A hung replica never answers: half of the timeout is for it, half for a retry on another one.
        attempt = stage.attempt_timeout_ms / 1000 if stage.attempt_timeout_ms is not None else None
        return cls(timeout, timeout / 2, timeout / 2 if stage.idempotent else inf, attempt)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledStage:
    """One stage with the settings of one program; immutable but for its state.

    Attributes:
        definition: the stage as its service defines it.
        parents: positions of the parents, in the order of the handler's parameters.
        children: positions of the stages that take its answer.
        cost: cost of one call, in micro-units of a request's cost.
        copies: largest number of copies of one call, by reissue and catch-up together.
        partial: when a fan-out stops waiting for its last shards; None for never.
    """

    name: str
    definition: Stage
    state: StageState
    index: int
    parents: tuple[int, ...]
    children: tuple[int, ...]
    timeouts: CallTimeouts
    cost: int
    copies: int = 0
    reissue: ReissueRule = ReissueRule()
    catch_up: CatchUpRule = CatchUpRule()
    partial: PartialPolicy | None = None
