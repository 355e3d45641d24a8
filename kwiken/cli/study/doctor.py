"""`kwiken doctor`: say what of this machine keeps kwiken from running, or from measuring."""

from __future__ import annotations

import click

from kwiken.apps.console.output import print_json, print_table
from kwiken.cli.shared.options import json_option

FAILED = 1
MAX_SECONDS = 600.0


@click.command(short_help="Check versions, limits, ports, clock, TLS, and whether the machine is quiet.")
@click.option(
    "--port", type=click.IntRange(1, 65_535), default=8080, show_default=True, help="Port to check."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, MAX_SECONDS),
    default=2.0,
    show_default=True,
    help="Time for which the load of the machine is watched.",
)
@json_option
def command(*, port: int, seconds: float, as_json: bool) -> int:
    """Check this machine: what is installed, its limits, a port, its clock, TLS, and how busy it is.

    The exit code is 1 if a check fails.
    """
    from kwiken.apps.doctor.checkup import checkup

    found = list(checkup(port=port, seconds=seconds))
    if as_json:
        print_json(found)
    else:
        rows = [(each.name, each.state, each.found, each.cure or "-") for each in found]
        print_table("This machine", ("check", "state", "found", "what to do"), rows)
    return FAILED if any(each.state == "fails" for each in found) else 0
