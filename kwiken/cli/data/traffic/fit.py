"""`kwiken traffic fit`: learns who sends how much to whom from traces or flow logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kwiken.apps.console.output import note_written, print_json, read_text, say, write_text
from kwiken.base.errors import InputError
from kwiken.cli.data.traffic.reading import flow_options, read_flows
from kwiken.cli.data.traffic.tables import show_model, summary
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE
from kwiken.cli.shared.options import (
    json_option,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    removed_option,
)

if TYPE_CHECKING:
    from kwiken.traffic.flows import BinnedFlows


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TRACES|FLOWS...")
@out_option(what="traffic model")
@flow_options
@click.option(
    "--nodes", metavar="FILE", help="A nodes.toml, from which endpoints on its nodes get their zones."
)
@removed_option("--windows", "no option: the windows that predict left-out days best are taken")
@json_option
@needs_extra("plan")
def command(
    *,
    sources: tuple[str, ...],
    out: str | None,
    bin_s: float,
    addresses: str | None,
    during_s: tuple[float, float] | None,
    nodes: str | None,
    as_json: bool,
) -> None:
    """Learn who sends how much to whom from TRACES or FLOWS.

    Traces are files or folders of Jaeger, OTLP or Zipkin JSON, or jaeger://HOST:PORT/SERVICE. Flow logs are
    VPC flow logs, which count bytes, or Hubble's JSON lines, which count calls. Spans count calls, between
    the instances that they state; where a head sampler states its share, each call counts for those that
    were dropped. Traces that were chosen by their latency (tail sampling) tell no rates.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    flows = read_flows(sources, bin_s, addresses, during_s)
    if nodes is not None:
        flows = _with_zones(flows, nodes)
    from kwiken.traffic.learning import learn

    model = learn(flows)
    if out is not None:
        write_text(out, model.to_json())
    if as_json:
        print_json(summary(model))
        return
    show_model(model, to_stderr=out == "-")
    note_written(out)
    if out is None:
        say("-o FILE keeps the model, for kwiken traffic judge and kwiken place --traffic")


def _with_zones(flows: BinnedFlows, file: str) -> BinnedFlows:
    """The flows with the zones of a nodes.toml, by the machines that the endpoints name.

    Raises:
        InputError: no endpoint stands on any node of the file.
    """
    from dataclasses import replace

    from kwiken.model.nodes.document import nodes_from_toml

    cluster = nodes_from_toml(read_text(file, MAX_NODES_FILE), where=file)
    zones = {node.name: node.zone for node in cluster.nodes}
    if not any(one.node in zones for one in flows.endpoints):
        told = sorted({one.node for one in flows.endpoints if one.node})
        names = f"they name {', '.join(told[:3])}" if told else "they name no node"
        raise InputError(f"no endpoint of the traffic stands on a node of this file; {names}", where=file)
    ends = tuple(
        msgspec.structs.replace(one, zone=zones[one.node]) if zones.get(one.node) else one
        for one in flows.endpoints
    )
    return replace(flows, endpoints=ends)
