"""Arms of the setting in force: requests without a plan, with the plan, and with one that is tried."""

from __future__ import annotations

from typing import Any, Final

from kwiken.runtime.decisions import FIRST_INDEX, LatencyHistogram, Program

ARMS: Final = ("control", "planned", "tried")
CONTROL, PLANNED, TRIED = range(len(ARMS))


class Arms:
    """Requests of each arm since the setting came into force; those that began before it do not count.

    Args:
        program: program of all requests but those of the trial.
        trial: program of the trial; None for none.
        trial_share: share of the requests that run under the trial's program, 0 to 1.
        control_share: share of the requests that run without any plan, 0 to 1.
    """

    __slots__ = ("control_share", "failed", "latencies", "program", "trial", "trial_share")

    def __init__(
        self, program: Program, trial: Program | None, *, trial_share: float, control_share: float
    ) -> None:
        self.program = program
        self.trial = trial
        self.trial_share = trial_share
        self.control_share = control_share
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

    def status(self) -> dict[str, Any]:
        """The arms as plain JSON types; cells by the number of their bucket, empty ones left out."""
        return {
            "trial": self.trial.digest if self.trial is not None else None,
            "trial_share": self.trial_share,
            "control_share": self.control_share,
            "arms": {
                name: {
                    "failed": self.failed[number],
                    "cells": {
                        str(cell + FIRST_INDEX): count
                        for cell, count in enumerate(self.latencies[number].cells)
                        if count
                    },
                }
                for number, name in enumerate(ARMS)
            },
        }
