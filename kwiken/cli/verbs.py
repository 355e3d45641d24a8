"""Command group of `kwiken`: the table of verbs, and the one line and exit code of each failure."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import click

from kwiken.apps.console.output import note
from kwiken.apps.console.process import Terminated, silence
from kwiken.base.errors import KwikenError
from kwiken.base.printable import printable
from kwiken.cli.shared.verb_group import LazyCommand, LazyGroup


class Verb(NamedTuple):
    """Verb in the table: the folder of `kwiken/cli/` that holds its module, and its line of help.

    The line is kept here so that `kwiken --help` imports no verb.
    """

    folder: str
    help: str


# Verbs by the group in which a user meets them. The verb V of folder F is in `kwiken/cli/F/V.py`. A verb
# whose folder is not installed is left out, so the half that places may be taken away.
GROUPS: Final = {
    "Learn and plan": {
        "advise": Verb(
            "study", "Say from traces what makes requests slow, what a budget buys, and what to change."
        ),
        "fit": Verb("study", "Learn a service's stages and latencies from its traces."),
        "explain": Verb("study", "Say which stages make slow requests slow, and what a budget buys there."),
        "plan": Verb("planning", "Apportion one budget across the stages of a profile."),
        "simulate": Verb("planning", "Replay a profile, with a plan or without."),
        "judge": Verb("planning", "Judge a plan on requests that it has not seen, with the ledger in force."),
        "export": Verb("study", "Write a plan, a placement or a provision as settings of other programs."),
        "report": Verb("study", "Write one page with charts of what was learned, planned and measured."),
    },
    "Run": {
        "init": Verb("study", "Write a new project: a service, a test, a load, a deployment."),
        "serve": Verb("live", "Run a service's gateway."),
        "stage": Verb("live", "Run one replica of one stage."),
        "up": Verb("live", "Start a local cluster: a gateway and every stage's replicas."),
        "down": Verb("live", "Stop the local cluster."),
        "restart": Verb("live", "Replace the processes of the local cluster, one after another."),
        "status": Verb("live", "Show the local cluster."),
        "apply": Verb("live", "Put a plan in force at a running gateway."),
        "doctor": Verb("study", "Check this machine: versions, limits, port, clock, TLS, load."),
        "compare": Verb("planning", "Compare a plan on a running service with none and with one percentile."),
        "load": Verb("live", "Send open-loop load to a gateway."),
        "autopilot": Verb("live", "Try plans on a running service, keep them or take them back."),
    },
    "Size and place": {
        "probe": Verb("allocate", "Measure this machine's contention, and stages in a sandbox."),
        "classify": Verb("allocate", "Predict workloads' performance on every node from a few measurements."),
        "place": Verb("allocate", "Size workloads for their targets and place them on unequal nodes."),
        "size": Verb(
            "allocate", "Find the cheapest replicas, nodes and reissues that meet a service's p99 at a rate."
        ),
        "provision": Verb(
            "allocate", "Decide what to reserve, what to rent by the hour or on spot, and what to keep idle."
        ),
        "pack": Verb(
            "allocate.packing", "Say what to move so that fewer nodes are needed, by what tasks use."
        ),
        "upkeep": Verb(
            "placing", "Keep the targets of a service in Kubernetes: scales, sizes and nodes of its stages."
        ),
    },
    "Batch and data": {
        "submit": Verb("queue", "Give the cluster a batch job."),
        "queue": Verb("queue", "Show the cluster's batch jobs."),
        "batch": Verb("batch", "Predict batch jobs from their logs, and plan where they run."),
        "storage": Verb("data.storage", "Learn and draw the load of disks, and place data sets on nodes."),
        "traffic": Verb("data.traffic", "Learn and judge traffic: who sends how much to whom."),
    },
    "Demos": {
        "demo": Verb("live", "Start a real service, learn, plan, apply, and show what it bought."),
    },
}
_HERE: Final = Path(__file__).parent
VERBS: Final = {
    name: verb
    for verbs in GROUPS.values()
    for name, verb in verbs.items()
    if _HERE.joinpath(*verb.folder.split(".")).is_dir()
}
# Verbs of earlier releases, and what does their work now.
REMOVED = {
    "demo-place": "`python -m benchmarks.command.demo_place` in a checkout of kwiken's source",
    "demo-batch": "`python -m benchmarks --only racks_live` in a checkout of kwiken's source",
    "reproduce": "`python -m papers NAME` in a checkout of kwiken's source",
    "fleet": "`python -m papers.worlds SCENARIO` in a checkout of kwiken's source",
}
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143
MAX_LINE = 2000
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def module_of(verb: str) -> str:
    """Full name of the module that holds a verb's command."""
    return f"kwiken.cli.{VERBS[verb].folder}.{verb.replace('-', '_')}"


class Verbs(LazyGroup):
    """Group of all verbs; every failure of a verb becomes one line on stderr."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run a command line, and end the process with its exit code, as every click command does."""
        sys.exit(guarded(self, args))


def guarded(command: click.Command, args: Sequence[str] | None, program: str = "kwiken") -> int:
    """Run one command line and return its exit code; every failure becomes one line on stderr.

    Args:
        args: arguments after the program's name; None for those of this process.
        program: name of the program in usage lines and messages.
    """
    if os.environ.get("KWIKEN_TRACEBACK") == "1":
        return _run(command, args, program)
    try:
        return _run(command, args, program)
    except KeyboardInterrupt as error:
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except click.Abort as error:  # how click reports an interrupt
        return TERMINATED if isinstance(error.__cause__, Terminated) else INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)  # the reader closed the pipe, as `head` does: not worth a message
        return FAILED
    except Exception as error:  # noqa: BLE001 - the outermost frame: a user must not see a traceback
        message, code = explain(error)
        note(f"{program}: {one_line(message)}")
        return code


def _run(command: click.Command, args: Sequence[str] | None, program: str) -> int:
    """Run click without its error handling, which would print the error itself and exit."""
    run = click.Group.main if isinstance(command, click.Group) else click.Command.main
    result = run(command, args, prog_name=program, standalone_mode=False)
    sys.stdout.flush()  # a closed pipe or a full disk shows here rather than at interpreter exit
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def explain(error: BaseException) -> tuple[str, int]:
    """Message for the user and exit code of a failure.

    There are five cases, tried in order for each error of a group: 1. an error of kwiken, 2. wrong usage,
    3. another error of click, 4. an error of the operating system, 5. anything else, which is a bug or a lack
    of memory.
    """
    for leaf in _leaves(error):
        if isinstance(leaf, KwikenError):
            return str(leaf), BAD_INPUT
        if isinstance(leaf, click.UsageError) and leaf.ctx is not None:
            return f"{leaf.format_message()} (see {leaf.ctx.command_path} --help)", BAD_INPUT
        if isinstance(leaf, click.ClickException):
            return leaf.format_message(), BAD_INPUT
        if isinstance(leaf, OSError):
            return explain_os(leaf), BAD_INPUT
    first = next(_leaves(error))
    kind = "out of memory" if isinstance(first, MemoryError) else "unexpected failure"
    return f"{kind}: {type(first).__name__}: {first} (KWIKEN_TRACEBACK=1 shows where)", FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Errors in a group, nested groups included, or the single error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def explain_os(error: OSError) -> str:
    """Message of an operating system's error, led by the file or address in question."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno == errno.EADDRINUSE and "address" not in reason.lower():
        reason = f"address already in use: {reason}"
    if error.filename is None and error.errno in NOT_WRITTEN:  # errors on named files carry their name
        return f"standard output: {reason}"
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def one_line(message: str) -> str:
    """One line of printable text with bounded length: no input can forge or flood a terminal."""
    return printable(" ".join(message.split()), most=MAX_LINE)


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's shape
    del param
    if value:
        from importlib.metadata import version

        click.echo(f"kwiken {version('kwiken')}")
        ctx.exit()


@click.command(
    cls=Verbs,
    lazy={name: LazyCommand(module_of(name), verb.help) for name, verb in VERBS.items()},
    groups=GROUPS,
    removed=REMOVED,
    noun="verb",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def kwiken(ctx: click.Context) -> None:
    """Kwiken buys p99: one small budget, spent across a service's stages where it cuts the tail most.

    Stdout is data, stderr is progress. Exit code 2 is bad usage or input; one line says what and where.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Iterable[str] | None = None) -> NoReturn:
    """Run the command line of this process, or other arguments, and end the process."""
    kwiken.main(None if args is None else list(args))
