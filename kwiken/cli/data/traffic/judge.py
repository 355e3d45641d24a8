"""`kwiken traffic judge`: errors of a traffic model on traffic that it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, print_json, print_table
from kwiken.base.errors import InputError
from kwiken.cli.data.traffic.reading import flow_options, load_traffic, read_flows
from kwiken.cli.shared.options import json_option, needs_extra

if TYPE_CHECKING:
    from kwiken.traffic.document import TrafficModel
    from kwiken.traffic.model_judgement import TrafficJudgement

MAX_SERVICES_SHOWN: Final = 10


@click.command()
@click.argument("later", nargs=-1, required=True, metavar="LATER...")
@click.argument("traffic", metavar="TRAFFIC")
@flow_options
@json_option
@needs_extra("plan")
def command(
    *,
    later: tuple[str, ...],
    traffic: str,
    bin_s: float,
    addresses: str | None,
    during_s: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Judge TRAFFIC, a model of kwiken traffic fit, on LATER traces or flow logs.

    Maps are compared as shares of all traffic: the sum of the differences of all pairs, so that a load that
    rose does not count as an error of the map; rates stand apart. An instance that the model does not know
    gets the mean of its service.
    """
    model = load_traffic(traffic)
    from kwiken.traffic.model_judgement import judge

    seen = read_flows(later, bin_s, addresses, during_s)
    if seen.unit is not model.unit:
        raise InputError(f"counts {seen.unit}, and {traffic} counts {model.unit}", where=later[0])
    found = judge(model, seen)
    if as_json:
        print_json(found)
        return
    _show(model, found)


def _show(model: TrafficModel, found: TrafficJudgement) -> None:
    rows = []
    for each in found.levels:
        for name, errors in (("model", each.model), ("mean", each.mean)):
            told = (errors.all_pairs, errors.busiest, errors.rare)
            rows.append((each.level.value, str(each.pairs), name, *(f"{value:.2%}" for value in told)))
    head = ("level", "pairs", "map", "error", "of the busiest", "of the rare half")
    print_table("errors of the maps, as shares of the traffic", head, rows)
    rates = [
        (one.service, f"{one.expected:.4g}", f"{one.seen:.4g}", _gap(one.expected, one.seen))
        for one in found.services[:MAX_SERVICES_SHOWN]
    ]
    rates.append(
        (
            "(all)",
            f"{found.expected_per_s:.4g}",
            f"{found.seen_per_s:.4g}",
            _gap(found.expected_per_s, found.seen_per_s),
        )
    )
    print_table(
        "rates of services while there is traffic",
        ("service", f"expected {model.unit}/s", f"seen {model.unit}/s", "expected over seen"),
        rates,
    )
    if found.new:
        note(f"note: {found.new} instances are not in the model by name, and got the mean of their service")
    if found.unknown:
        note(f"note: {found.unknown} services are not in the model, so that all their traffic is an error")


def _gap(expected: float, seen: float) -> str:
    return f"{expected / seen - 1:+.1%}" if seen > 0 else "-"
