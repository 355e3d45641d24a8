"""Options of several verbs, their value types, and loaders of profiles, plans and services."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from kwiken.apps.console.output import note, read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB

if TYPE_CHECKING:
    from pathlib import Path

    from kwiken.model.plan.plan import Plan
    from kwiken.model.profile.profile import Profile
    from kwiken.model.service.service import Service

F = TypeVar("F", bound=Callable[..., Any])
MAX_PROFILE: Final = 1024 * MIB
MAX_PLAN: Final = 16 * MIB
# Copied from the planner, so that a help text does not load NumPy.
OBJECTIVES: Final = ("tail", "variance")


def removed_option(name: str, use: str, *, flag: bool = False) -> Callable[[F], F]:
    """Option of an earlier release, which is refused with what to use in its place.

    Args:
        use: what does its work now.
        flag: whether the option took no value.
    """

    def refuse(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            raise click.UsageError(f"{name} was removed; use {use}", ctx)

    own = "removed" + name.replace("-", "_")  # an option that stays may have the plain name
    return click.option(name, own, is_flag=flag, hidden=True, expose_value=False, callback=refuse)


class NameChoice(click.Choice[str]):
    """One of some names; a name of an earlier release is refused with what to use in its place.

    Args:
        removed: names of earlier releases, and what does their work now.
    """

    def __init__(self, names: Sequence[str], removed: Mapping[str, str]) -> None:
        super().__init__(names)
        self._removed = removed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if it is one of the known."""
        if value in self._removed:
            self.fail(f"{value!r} was removed; use {self._removed[value]}", param, ctx)
        return super().convert(value, param, ctx)


class Real(click.FloatRange):
    """Value type of a finite number within bounds; click's own range accepts NaN and infinity.

    Args:
        low: lower bound; None for none.
        high: largest allowed value; None for none.
        above: whether `low` itself is excluded.
    """

    name = "number"

    def __init__(self, low: float | None = None, high: float | None = None, *, above: bool = False) -> None:
        super().__init__(min=low, max=high, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number; the error names the bounds."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number; it must be {self._rule()}", param, ctx)
        low, high = self.min, self.max
        fits = (low is None or number >= low) and (high is None or number <= high)
        if not (math.isfinite(number) and fits) or (self.min_open and number == low):
            self.fail(f"{value} is out of range; it must be {self._rule()}", param, ctx)
        return number + 0.0  # turns -0.0 into 0.0

    def _rule(self) -> str:
        bounds = [] if self.min is None else [f"{'above' if self.min_open else 'at least'} {self.min:g}"]
        bounds += [] if self.max is None else [f"at most {self.max:g}"]
        return f"a finite number {' and '.join(bounds)}".strip()


_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Click callback: parse a time such as 90s, 30m, 1h or 2d into seconds."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    seconds = float(found.group(1)) * _SECONDS[found.group(2)] if found is not None else 0.0
    if not seconds > 0:
        raise click.BadParameter(f"{value!r} is not a time; write 90s, 30m, 1h or 2d", ctx, param)
    return seconds


_LATENCY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|)", re.ASCII)
MIN_LATENCY_MS, MAX_LATENCY_MS = 0.001, 1e9


def milliseconds(text: str) -> float | None:
    """Latency of a text such as 60ms, 0.2s or 60, milliseconds; None if it is none.

    A number without a unit is in milliseconds, as all latencies that kwiken prints.
    """
    found = _LATENCY.fullmatch(text)
    ms = float(found[1]) * (1e3 if found[2] == "s" else 1.0) if found is not None else 0.0
    return ms if MIN_LATENCY_MS <= ms <= MAX_LATENCY_MS else None


LATENCY_FORM: Final = "60ms, 0.2s or 60, which are milliseconds, from 0.001 to 1e+09 ms"


def during_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """Click callback: parse START/END or START/DURATION into seconds since 1970; UTC without a zone."""
    if value is None:
        return None
    start, _, end = value.partition("/")
    try:
        since = _instant(start)
        length = _DURATION.fullmatch(end)
        until = since + float(length[1]) * _SECONDS[length[2]] if length is not None else _instant(end)
    except (ValueError, OverflowError):
        since = until = 0.0
    if not since < until:
        raise click.BadParameter(
            f"{value!r} is no time; write START/END or START/DURATION, such as 2026-01-30T13:15:43/60s",
            ctx,
            param,
        )
    return since, until


def _instant(text: str) -> float:
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


during_option = click.option(
    "--during",
    "during_s",
    metavar="START/END",
    callback=during_of,
    help="Explain the requests that start in this time, such as 2026-01-30T13:15:43/60s (UTC), beside all "
    "others.  [default: the slowest 5%]",
)
SHARE: Final = Real(0, 1)
POSITIVE: Final = Real(0, above=True)
NOT_NEGATIVE: Final = Real(0)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of all random numbers.",
)
sampled_option = click.option(
    "--sampled",
    type=Real(0, 1, above=True),
    default=1.0,
    show_default=True,
    metavar="SHARE",
    help="Share of the service's requests that the traces hold; they get this share of the ledger's floor.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the results as JSON on stdout.")


def needs_extra(*extras: str) -> Callable[[F], F]:
    """Decorate a verb's function, below its options, to check that the libraries of extras are installed.

    Args:
        extras: names of extras, as in `pyproject.toml`.
    """

    def decorate(callback: F) -> F:
        @functools.wraps(callback)
        def checked(*args: Any, **kwargs: Any) -> Any:
            from kwiken.base.extras import require

            require(str(click.get_current_context().info_name), *extras)
            return callback(*args, **kwargs)

        return cast("F", checked)

    return decorate


def given(*names: str) -> str | None:
    """Find the first of these options that the command line sets; None if it sets none."""
    context = click.get_current_context()
    spelled = {param.name: param.opts[-1] for param in context.command.params}
    found = (name for name in names if context.get_parameter_source(name) is not ParameterSource.DEFAULT)
    return next((spelled[name] for name in found), None)


def stated(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that names an attribute: refuse an empty name."""
    if value == "":
        raise click.UsageError(f"{param.opts[0]} is empty; give an attribute's name, or root", ctx)
    return value


kind_by_option = click.option(
    "--kind-by",
    callback=stated,
    metavar="ATTRIBUTE|root",
    help="Requests in classes, by this attribute of their spans, or all kinds together, by root.",
)


def once_option(command: F) -> F:
    """Add the option `--once STAGE`: stages whose calls get no copies."""
    return click.option(
        "--once",
        multiple=True,
        metavar="STAGE",
        help="A stage that must not run twice, such as a write: it gets no copies. A name, or a pattern "
        "such as '*:write_*'; repeatable.",
    )(command)


def copyable_option(command: F) -> F:
    """Add the option `--copyable STAGE`: stages that may get copies though they were taken for writes."""
    return click.option(
        "--copyable",
        multiple=True,
        metavar="STAGE",
        help="A stage that was taken for a write and may run twice all the same. A name or a pattern; "
        "repeatable.",
    )(command)


def refuse_shared_stdout(**wanted: bool) -> None:
    """Refuse options that would write two documents to stdout.

    Args:
        **wanted: whether each option is given, by the name of its parameter; `out` stands for `-o -`.

    Raises:
        UsageError: more than one is given; names them.
    """
    names = ["-o -" if name == "out" else f"--{name}" for name, given_ in wanted.items() if given_]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} both write to stdout; choose one")


def out_option(
    default: str | None = None, *, required: bool = False, what: str = "result", metavar: str = "FILE"
) -> Callable[[F], F]:
    """Build the option `-o FILE`, the file that a verb writes; `-` is stdout.

    Args:
        default: file if the option is not set; None for none.
        what: name of the contents, for the help text.
        metavar: kind of value that the help text names; another than FILE where the verb makes a folder.
    """
    return click.option(
        "-o",
        "--out",
        "out",
        default=default,
        required=required,
        metavar=metavar,
        show_default=default is not None,
        help=f"File to write the {what} to; '-' is stdout.",
    )


def load_profile(path: str) -> Profile:
    """Load the profile in a file; `-` is stdin.

    Raises:
        InputError: names the file, and what in it is wrong.
    """
    text = read_text(path, MAX_PROFILE)  # read first: a missing file is reported before NumPy is loaded
    from kwiken.model.profile.codec import profile_from_json

    return profile_from_json(text, where=path)


def load_plan(path: str) -> Plan:
    """Load the plan in a file; `-` is stdin.

    Raises:
        InputError: names the file, and what in it is wrong.
    """
    text = read_text(path, MAX_PLAN)
    from kwiken.model.plan.plan import Plan

    return Plan.from_json(text, where=path)


def load_service(target: str) -> Service:
    """Load the service that `MODULE:SERVICE`, `FILE.py:SERVICE` or `FILE.yaml` names.

    The current folder is searched for a module first.

    Raises:
        InputError: when the file, the module or the name in it is missing, is no Service, or fails to import.
        DefinitionError: when the service cannot be run.
    """
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    from kwiken.runtime.base.target import load_target

    return load_target(target)


def service_name(text: str, state: Path | None = None) -> str:
    """Name of a service, from its name or from what `kwiken up` was given for the service.

    Args:
        state: folder of the states of services that are up, which know what they were started from.

    Raises:
        InputError: for a file in YAML that holds no service.
    """
    from kwiken.runtime.base.target import YAML_SUFFIXES
    from kwiken.runtime.cluster.state.files import StateFiles

    for files in StateFiles.all(state) if state is not None else ():
        with contextlib.suppress(InputError):  # an unreadable state is told when its own service is asked for
            found = files.read()
            if found is not None and found.target == text:
                return files.service
    return load_service(text).name if text.endswith(YAML_SUFFIXES) else text.rpartition(":")[2]


def check_belongs(plan: Plan, profile: Profile, plan_file: str, profile_file: str) -> None:
    """Refuse a plan of another service, and note a plan that was made from another profile.

    Raises:
        InputError: names both files.
    """
    if plan.service != profile.service:
        raise InputError(
            f"is a plan for service {plan.service!r}, and {profile_file} is of {profile.service!r}",
            where=plan_file,
        )
    if plan.profile != profile.digest:
        note(f"note: {plan_file} was made from another profile of the same service")
