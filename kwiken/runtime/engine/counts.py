"""Counts of requests: by outcome, and by arm (without a plan, with the plan, with one that is tried)."""

from __future__ import annotations

from typing import Final

from kwiken.model.plan.arm_accounts import ArmAccounts
from kwiken.runtime.base.errors import DeadlineError, UnavailableError
from kwiken.runtime.decisions.latency_histogram import FIRST_INDEX, LatencyHistogram, RecentLatencies
from kwiken.runtime.decisions.program import Program
from kwiken.runtime.decisions.stage_state import RECENT_STEPS
from kwiken.runtime.engine.status_document import ArmStatus

ANSWERED: Final = "answered"
CHOSEN: Final = "chosen"  # by a stop rule
BY_FAILURES: Final = "failures"
OUTCOMES: Final = (ANSWERED, "failed", "deadline", "full", "cancelled")
ARMS: Final = ("control", "planned", "tried")
CONTROL, PLANNED, TRIED = range(len(ARMS))


class Arms:
    """Requests of each arm since the setting came into force; those that began before it do not count.

    Args:
        program: program of all requests but those of the trial.
        trial: program of the trial; None for none.
        trial_share: share of the requests that run under the trial's program, 0 to 1.
        control_share: share of the requests that run without any plan, 0 to 1.
        accounts: accounts of the requests with the plan, and of those with the tried one, which pay for
            copies beside those of the service; None without a trial.
    """

    __slots__ = ("accounts", "control_share", "failed", "latencies", "program", "trial", "trial_share")

    def __init__(
        self,
        program: Program,
        trial: Program | None,
        *,
        trial_share: float,
        control_share: float,
        accounts: tuple[ArmAccounts, ArmAccounts] | None = None,
    ) -> None:
        self.program = program
        self.trial = trial
        self.trial_share = trial_share
        self.control_share = control_share
        self.accounts = accounts
        self.latencies = [LatencyHistogram() for _ in ARMS]
        self.failed = [0 for _ in ARMS]

    def note(self, program: Program, took_s: float, *, control: bool, answered: bool) -> None:
        """Count a request that has ended.

        Args:
            program: program that it ran under.
            took_s: its latency, seconds.
            control: whether no lever touched it.
        """
        if program is self.program:
            arm = CONTROL if control else PLANNED
        elif program is self.trial:
            arm = TRIED
        else:
            return
        if answered:
            self.latencies[arm].add(took_s)
        else:
            self.failed[arm] += 1

    def status(self) -> dict[str, ArmStatus]:
        """Counts by arm; cells by the number of their bucket, empty ones left out."""
        return {
            name: {
                "failed": self.failed[number],
                "cells": {
                    str(cell + FIRST_INDEX): count
                    for cell, count in enumerate(self.latencies[number].cells)
                    if count
                },
            }
            for number, name in enumerate(ARMS)
        }


class Counts:
    """Numbers of requests so far, and their latencies by outcome.

    Attributes:
        requests: requests that were admitted.
        failed: requests that ended by an error.
        cancelled: requests whose callers gave up.
        partial: requests with partial answers.
        control: requests of the control share.
        lost_utility: utility that partial answers lacked, in whole answers, by its cause.
        plans: plans put in force or removed.
        latencies: latencies of ended requests, by outcome.
        recent: those of requests answered in the last intervals.
    """

    __slots__ = (
        "cancelled",
        "control",
        "failed",
        "latencies",
        "lost_utility",
        "partial",
        "plans",
        "recent",
        "requests",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0
        self.cancelled = 0
        self.partial = 0
        self.control = 0
        self.lost_utility = {CHOSEN: 0.0, BY_FAILURES: 0.0}
        self.plans = 0
        self.latencies = {outcome: LatencyHistogram() for outcome in OUTCOMES}
        self.recent = RecentLatencies(self.latencies[ANSWERED], RECENT_STEPS)

    def lose(self, utility: float, by_failures: float) -> None:
        """Count what a partial answer lacks.

        Args:
            utility: lost utility, in whole answers.
            by_failures: share of it that failures caused, 0 to 1; the rest was chosen.
        """
        self.lost_utility[BY_FAILURES] += utility * by_failures
        self.lost_utility[CHOSEN] += utility * (1.0 - by_failures)


def outcome_of(error: BaseException | None) -> str:
    """Outcome of a request, one of `OUTCOMES`, by the error that it ended by; None for an answer."""
    if error is None:
        return ANSWERED
    if isinstance(error, DeadlineError):
        return "deadline"
    if isinstance(error, UnavailableError) and error.full:
        return "full"
    return "failed" if isinstance(error, Exception) else "cancelled"
