"""Inputs of the traffic commands: traces or flow logs as binned flows, and traffic models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwiken.apps.console.output import note, progress, read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.input_files import check_exist, named_by
from kwiken.cli.shared.options import during_of, seconds_of

if TYPE_CHECKING:
    from kwiken.traffic.document import TrafficModel
    from kwiken.traffic.flows import BinnedFlows, Flows

F = TypeVar("F", bound=Callable[..., Any])
MAX_TRAFFIC: Final = 512 * MIB
MAX_ADDRESSES: Final = 64 * MIB
# Counts of a cleaned forest that a user should know of, with the words for them.
TOLD: Final = (
    ("spans_orphaned", "spans have a parent that is missing, so who called them is not known"),
    ("spans_without_service", "spans name no service"),
    ("spans_sampled_out", "spans were left out, because there are too many: whole traces, at random"),
    ("lines_unfinished", "lines at the end of a file were cut short"),
    ("files_without_spans", "files hold no spans"),
    ("spans_duplicate", "spans were given twice, and count once"),
)


def flow_options(command: F) -> F:
    """Add the options that say how traffic is read: `--bin`, `--addresses` and `--during`."""
    for option in (
        click.option(
            "--during",
            "during_s",
            metavar="START/END",
            callback=during_of,
            help="Only what begins in this time, such as 2026-01-30T13:00/1h (UTC).",
        ),
        click.option(
            "--addresses",
            metavar="FILE",
            help="For flow logs: CSV with the columns address and service, and name, node, zone. Other "
            "addresses count as one endpoint outside.",
        ),
        click.option(
            "--bin",
            "bin_s",
            callback=seconds_of,
            default="5m",
            show_default=True,
            metavar="TIME",
            help="Length of the time bins, as in 60s, 5m or 1h.",
        ),
    ):
        command = option(command)
    return command


def read_flows(
    sources: Sequence[str],
    bin_s: float,
    addresses: str | None,
    during_s: tuple[float, float] | None = None,
) -> BinnedFlows:
    """Read traces or flow logs; what was left out is noted.

    Args:
        sources: files and folders, or addresses of a Jaeger.
        bin_s: length of the time bins, seconds.
        addresses: table of addresses, for flow logs; None for none.
        during_s: time in which a transfer begins that counts, seconds since 1970; None for all of them.

    Raises:
        InputError: names the file and what is wrong with it.
    """
    check_exist(sources)
    from kwiken.traffic.flows import binned

    with named_by(sources):
        flows = _read(sources, addresses)
        return binned(flows if during_s is None else flows.during(*during_s), bin_s)


def _read(sources: Sequence[str], addresses: str | None) -> Flows:
    from pathlib import Path

    from kwiken.traffic.span_flows.addresses import endpoints_by_address
    from kwiken.traffic.span_flows.logs import is_flow_log, read_flow_logs
    from kwiken.traffic.span_flows.spans import flows_of_forest

    logs = [Path(source).is_file() and is_flow_log(source) for source in sources]
    if any(logs) and not all(logs):
        raise InputError("flow logs and traces count the same calls twice; give files of one kind")
    if all(logs):
        text = None if addresses is None else read_text(addresses, MAX_ADDRESSES)
        known = {} if text is None else endpoints_by_address(text, where=str(addresses))
        with progress("reading flow logs"):
            found = read_flow_logs(sources, known)
        for why, count in found.counts.items():
            note(f"note: {count} lines: {why}")
        return found.flows
    if addresses is not None:
        raise InputError("goes with flow logs; spans name their services", where="--addresses")
    from kwiken.otel.trace.load import read_forest

    with progress("reading traces") as bar:
        forest = read_forest(sources, on_progress=lambda done, total: bar.update(done, total=total))
    for name, words in TOLD:
        if forest.counts[name]:
            note(f"note: {forest.counts[name]} {words}")
    return flows_of_forest(forest)


def load_traffic(path: str) -> TrafficModel:
    """Load the traffic model in a file; `-` is stdin.

    Raises:
        InputError: names the file, and what in it is wrong.
    """
    text = read_text(path, MAX_TRAFFIC)
    from kwiken.traffic.document import TrafficModel

    return TrafficModel.from_json(text, where="<stdin>" if path == "-" else path)
