"""`kwiken upkeep`: keeps the targets of a service in Kubernetes."""

from __future__ import annotations

import contextlib
import logging
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from kwiken.apps.console.output import note
from kwiken.cli.live.gateway.remote import remote_gateway, token_file_option
from kwiken.cli.placing.options import placed_on
from kwiken.cli.shared.options import load_service, needs_extra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwiken.cli.placing.placement_inputs import Placed
    from kwiken.cli.placing.target_inputs import Standing
    from kwiken.model.nodes.nodes import Node
    from kwiken.model.service.service import Service
    from kwiken.runtime.gateway.control.client import ControlClient
    from kwiken.upkeep.kubernetes.api import ApiAddress, KubernetesApi

LOG: Final = logging.getLogger("kwiken.upkeep")


@dataclass(frozen=True)
class _Documents:
    """Paths of what says which targets are kept."""

    nodes: str
    workloads: str
    profiles: str
    target_p99: tuple[str, ...]


@click.command(short_help="Keep the targets of a service in Kubernetes.")
@click.argument("target", metavar="SERVICE")
@click.option("--kubernetes", is_flag=True, help="Act on pods of Kubernetes; kwiken up keeps local targets.")
@click.option("--nodes-from-cluster", is_flag=True, help="Use the nodes that the cluster has.")
@click.option("--nodes", metavar="FILE", required=True, help="Classes of nodes.")
@click.option("--workloads", metavar="FILE", required=True, help="Workloads whose targets are kept.")
@click.option("--profiles", metavar="FILE", required=True, help="Predictions, from kwiken classify.")
@click.option("--target-p99", multiple=True, metavar="TIME", help="p99 of the whole service to keep.")
@click.option("--url", metavar="URL", required=True, help="Address of the service's gateways.")
@token_file_option
@click.option(
    "--api", metavar="URL", help="API of Kubernetes, as from kubectl proxy.  [default: the pod's own]"
)
@click.option("--api-token-file", metavar="FILE", help="File with the token for --api.")
@click.option("--api-ca", metavar="FILE", help="Certificates by which --api is known.")
@click.option("--namespace", metavar="NAME", help="Namespace of the service.  [default: the pod's own]")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log's lines on stderr.",
)
@needs_extra("plan")
def command(
    *,
    target: str,
    kubernetes: bool,
    nodes_from_cluster: bool,
    nodes: str,
    workloads: str,
    profiles: str,
    target_p99: tuple[str, ...],
    url: str,
    token_file: str | None,
    api: str | None,
    api_token_file: str | None,
    api_ca: str | None,
    namespace: str | None,
    log_format: Literal["text", "json"],
) -> None:
    """Keep the targets of SERVICE, whose stages run in Kubernetes, until told to stop.

    kwiken export SERVICE --to kubernetes --upkeep writes what runs it. It sets the scale of each stage's
    Deployment, lets each pod onto a node, and resizes pods in place, as kwiken up --nodes does with
    processes. The class of a node is its label kwiken/class, or else node.kubernetes.io/instance-type.
    """
    if not (kubernetes and nodes_from_cluster):
        raise click.UsageError("give --kubernetes and --nodes-from-cluster; kwiken up keeps local targets")
    if api is None and (api_token_file is not None or api_ca is not None):
        raise click.UsageError("--api-token-file and --api-ca go with --api")
    service = load_service(target)
    gateway, token = remote_gateway(url, token_file)
    from kwiken.runtime.process.log_limits import set_up_logs
    from kwiken.upkeep.kubernetes.api import ApiAddress

    set_up_logs(log_format, "upkeep")
    LOG.setLevel(logging.INFO)
    if api is None:
        address = ApiAddress.within(namespace)
    else:
        address = ApiAddress(
            url=api.rstrip("/"),
            namespace=namespace or "default",
            token_file=Path(api_token_file) if api_token_file is not None else None,
            ca_file=Path(api_ca) if api_ca is not None else None,
        )
    documents = _Documents(nodes, workloads, profiles, target_p99)
    import asyncio

    try:
        asyncio.run(_run(service, documents, address, gateway, token))
    except asyncio.CancelledError:  # told to stop before it had begun
        raise click.Abort from None


async def _run(service: Service, documents: _Documents, address: ApiAddress, url: str, token: str) -> None:
    """Keep the targets until told to stop; where nodes join, start from what stands."""
    import asyncio

    from kwiken.runtime.gateway.control.client import ControlClient
    from kwiken.upkeep.kubernetes.api import KubernetesApi

    this = asyncio.current_task()
    assert this is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, this.cancel)
    async with KubernetesApi(address) as api:
        while True:
            try:
                await _keep(service, documents, api, address.namespace, ControlClient(url, token))
            except asyncio.CancelledError:
                return
            LOG.info("%s: other nodes joined, so it starts from what stands", service.name)


async def _keep(
    service: Service, documents: _Documents, api: KubernetesApi, namespace: str, client: ControlClient
) -> None:
    """Bring the pods to what is wanted, then keep the targets until other nodes join."""
    import asyncio

    from kwiken.export.placements.groups import name_in_kubernetes
    from kwiken.runtime.base.event_loop import cancel_and_wait
    from kwiken.upkeep.kubernetes.nodes import KubernetesNodes
    from kwiken.upkeep.kubernetes.replicas import PodReplicas
    from kwiken.upkeep.upkeep import Upkeep

    async with contextlib.AsyncExitStack() as stack:
        name = name_in_kubernetes(service.name)
        own = {
            stage: name_in_kubernetes(stage) for stage, one in service.stages.items() if not one.remote_call
        }
        found, standing = await _seen(api, name, namespace, own)
        placed = _placed(service, documents, found, standing)
        adaptation, assignment = placed.adaptation, placed.assignment
        assert adaptation is not None
        assert assignment is not None
        nodes = KubernetesNodes(node.name for node in found)
        cluster = PodReplicas(service, api, client, nodes, name=name, components=own)
        stage_of = {name: one.stage for name, one in assignment.workloads.items()}
        cluster.learned = lambda: {stage_of[name]: each for name, each in adaptation.learned.items()}
        wanted = assignment.keys_by_stage(adaptation.keys)
        LOG.info("%s: %d replicas of %d stages", service.name, sum(map(len, wanted.values())), len(wanted))
        watching = asyncio.create_task(cluster.watch())
        stack.push_async_callback(cancel_and_wait, [watching])
        upkeep = Upkeep(
            adaptation,
            assignment,
            {service.name: cluster},
            nodes,
            say=lambda line: LOG.info("%s", line),
            pend=cluster.pend,
        )
        await upkeep.begin(await cluster.settle(wanted))
        keeping = asyncio.create_task(upkeep.run())
        stack.push_async_callback(cancel_and_wait, [keeping])
        await cluster.joined.wait()


async def _seen(
    api: KubernetesApi, name: str, namespace: str, components: Mapping[str, str]
) -> tuple[list[Node], Standing]:
    """Nodes of the cluster that are ready, and what stands there.

    Args:
        name: name of the service in Kubernetes.
        namespace: namespace of the service.
        components: name of each stage in Kubernetes, by stage.
    """
    from kwiken.cli.placing.standing_pods import standing_of
    from kwiken.upkeep.kubernetes.nodes import node_of, usable_nodes

    found = await api.nodes()
    usable = usable_nodes(found)
    nodes = [one for one in map(node_of, found) if one.name in usable]
    return nodes, standing_of(await api.all_pods(), found, name, namespace, components, usable)


def _placed(service: Service, documents: _Documents, found: Sequence[Node], standing: Standing) -> Placed:
    """Read the documents, and place the service's stages on the nodes that there are."""
    from kwiken.cli.placing.target_inputs import refuse_best_effort

    placed = placed_on(found, service, **vars(documents), standing=standing)
    assert placed.assignment is not None
    refuse_best_effort(list(placed.assignment.workloads.values()), documents.workloads)
    kept = {one.stage for one in placed.assignment.workloads.values()}
    if left := [name for name in service.stages if name not in kept]:
        note(f"note: without a target, and so with the scale that they have: {', '.join(left)}")
    return placed
