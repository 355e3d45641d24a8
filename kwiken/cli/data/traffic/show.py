"""`kwiken traffic show`: maps of a traffic model by level, its locality and its talkers."""

from __future__ import annotations

import click

from kwiken.apps.console.output import print_json
from kwiken.cli.data.traffic.reading import load_traffic
from kwiken.cli.shared.options import json_option, needs_extra


@click.command()
@click.argument("traffic", metavar="TRAFFIC")
@json_option
@needs_extra("plan")
def command(*, traffic: str, as_json: bool) -> None:
    """Show who sends how much to whom in TRAFFIC, a model of kwiken traffic fit; --json has every pair."""
    model = load_traffic(traffic)
    from kwiken.cli.data.traffic.tables import show_model, summary

    if as_json:
        print_json(summary(model))
    else:
        show_model(model)
