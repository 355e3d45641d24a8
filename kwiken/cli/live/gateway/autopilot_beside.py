"""Options of `kwiken serve` and `kwiken up` that start an autopilot beside the gateways."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import click

from kwiken.base.errors import InputError
from kwiken.cli.shared.options import Real

F = TypeVar("F", bound=Callable[..., Any])
AUTOPILOT_BUDGET: Final = 0.05


@dataclass(frozen=True)
class AutopilotSettings:
    """Values of the options.

    Attributes:
        wanted: whether an autopilot is to be started.
        budget: reissue budget that no plan exceeds, as a share of all work.
    """

    wanted: bool
    budget: float

    def check(self, *, plan: str | None, trace: str) -> None:
        """Refuse options that do not go together.

        Args:
            plan: value of --plan; None without it.
            trace: value of --trace, which says whose spans are written.

        Raises:
            InputError: the autopilot could not work; says why.
        """
        if self.wanted and plan is not None:
            raise InputError("does not go with --autopilot, which makes the plans itself", where="--plan")
        if self.wanted and trace == "off":
            raise InputError("leaves --autopilot nothing to learn from", where="--trace off")


def autopilot_options(callback: F) -> F:
    """Decorate a verb's function with the options; it gets their values as `autopilot`."""

    @functools.wraps(callback)
    def with_settings(*, autopilot: bool, budget: float | None, **values: Any) -> Any:
        if budget is not None and not autopilot:
            raise InputError("goes with --autopilot", where="--budget")
        settings = AutopilotSettings(autopilot, AUTOPILOT_BUDGET if budget is None else budget)
        return callback(autopilot=settings, **values)

    decorated: Callable[..., Any] = with_settings
    for option in (
        click.option(
            "--budget",
            type=Real(0, 1, above=True),
            help="Reissue budget of the autopilot's plans, as a share of all work.  "
            f"[default: {AUTOPILOT_BUDGET}]",
        ),
        click.option(
            "--autopilot",
            is_flag=True,
            help="Learn from the traces, try plans on a share of the requests, keep them or take them back.",
        ),
    ):
        decorated = option(decorated)
    return cast("F", decorated)


def autopilot_command(settings: AutopilotSettings, service: str, *, traces: str, state: str) -> list[str]:
    """Command of an autopilot beside gateways, but for their `--url`.

    Args:
        traces: folder of the gateways' traces.
        state: folder of the history and the lease.
    """
    words = [sys.executable, "-m", "kwiken.cli.tied_process", "autopilot", service]
    return [*words, "--traces", traces, "--state", state, "--budget", str(settings.budget)]


@contextlib.asynccontextmanager
async def steered(
    command: Sequence[str], *, urls: Sequence[str], variables: Mapping[str, str]
) -> AsyncIterator[None]:
    """Keep an autopilot running beside gateways, in a process of its own.

    Args:
        command: words that `autopilot_command` returned, which lack only the addresses.
        urls: address of each gateway.
        variables: variables that hold the token of their control routes, and the names of files of TLS.
    """
    import asyncio

    from kwiken.runtime.base.event_loop import cancel_and_wait
    from kwiken.runtime.gateway.steering.process import AutopilotProcess

    words = [*command, *(word for url in urls for word in ("--url", url))]
    keeping = asyncio.create_task(AutopilotProcess(words, lambda: variables).keep())
    try:
        yield
    finally:
        await cancel_and_wait([keeping])
