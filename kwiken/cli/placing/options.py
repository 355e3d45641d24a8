"""Options of `kwiken up` that place replicas on nodes, and keep targets there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kwiken.base.errors import InputError
from kwiken.cli.placing.placement_inputs import Placed, read_placement_inputs
from kwiken.cli.shared.options import LATENCY_FORM, Real, milliseconds, seconds_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from kwiken.cli.placing.target_inputs import Standing
    from kwiken.model.nodes.nodes import Node
    from kwiken.model.service.service import Service
    from kwiken.runtime.cluster.cluster import Cluster as Running
    from kwiken.runtime.cluster.layout import Layout

F = TypeVar("F", bound=Callable[..., Any])
AUTO: Final = "auto"  # a dial that follows the burn rate


@dataclass(frozen=True)
class PlacementOptions:
    """Values of the options.

    Attributes:
        nodes: path of the document of nodes; None for none.
        workloads: path of the document of workloads, whose targets are kept; None for none.
        profiles: path of their predictions; None for none.
        target_p99: p99 latencies to keep of whole services, as texts: `TIME`, or `SERVICE=TIME`.
        prices: path of the document of prices, by which nodes are rented; None to have all nodes.
        repack_s: seconds from one repacking of the replicas to the next; None to repack never.
        dial: from 0, as few nodes as possible, to 10, no risk added; None to follow the burn rate.
    """

    placement: str | None
    nodes: str | None
    workloads: str | None = None
    profiles: str | None = None
    target_p99: tuple[str, ...] = ()
    prices: str | None = None
    repack_s: float | None = None
    dial: float | None = None

    def read(self, services: Sequence[Service]) -> Placed | None:
        """Read what the files say of some services; None without a placement.

        Raises:
            InputError: options or files do not fit each other or a service; names option or file.
        """
        wanted = self.workloads, self.profiles, self.prices, self.repack_s
        if any(one is not None for one in wanted) or self.target_p99:
            if self.nodes is None or self.workloads is None or self.profiles is None:
                what = "renting nodes" if self.prices is not None else "keeping targets"
                what = "repacking" if self.repack_s is not None else what
                raise InputError(f"{what} needs --nodes, --workloads and --profiles")
            # Here, since it needs the libraries of planning.
            from kwiken.cli.placing.target_inputs import read_target_inputs

            return read_target_inputs(
                self.nodes,
                self.workloads,
                self.profiles,
                self.placement,
                services,
                service_targets_ms=service_targets(services, self.target_p99),
                prices_file=self.prices,
                repack_s=self.repack_s,
                dial=self.dial,
            )
        if self.placement is None:
            if self.nodes is not None:
                raise InputError("needs --placement, or --workloads and --profiles", where="--nodes")
            return None
        return read_placement_inputs(self.placement, self.nodes, services)

    def running(
        self, starts: Mapping[str, Callable[[Layout | None], Running]], nodes: Placed, folder: Path
    ) -> AbstractAsyncContextManager[
        tuple[dict[str, Running], Callable[[asyncio.Event], Coroutine[Any, Any, None]] | None]
    ]:
        """Clusters on the nodes, and what keeps targets there until an event is set; None if nothing does."""
        from kwiken.cli.placing.run_on_nodes import on_nodes

        return on_nodes(starts, nodes, folder)


def _dial(ctx: click.Context, param: click.Parameter, value: str | None) -> str | float | None:
    """Click callback: parse `auto` or a number from 0 to 10."""
    if value is None or value == AUTO:
        return value
    return Real(0, 10).convert(value, param, ctx)


def placement_options(main: F) -> F:
    """Add the options to a verb, which gets them as `placing`."""

    @click.option(
        "--placement",
        metavar="FILE",
        help="Placement to follow, from kwiken place: this machine emulates its nodes.",
    )
    @click.option("--nodes", metavar="FILE", help="Nodes, with the speed of their classes.")
    @click.option(
        "--workloads",
        metavar="FILE",
        help="Workloads whose targets are kept: replicas are started, resized and moved as needed.",
    )
    @click.option("--profiles", metavar="FILE", help="Predictions of the workloads, from kwiken classify.")
    @click.option(
        "--target-p99",
        multiple=True,
        metavar="[SERVICE=]TIME",
        help="p99 of the whole service to keep, such as 60ms, 0.2s, or 60 for milliseconds; repeatable for "
        "several services.",
    )
    @click.option(
        "--prices",
        metavar="FILE",
        help="Offers of the nodes: those that are not held are rented when room is short, and given back.",
    )
    @click.option(
        "--repack",
        "repack_s",
        metavar="TIME",
        callback=seconds_of,
        help="Interval, such as 1h, at which replicas and best-effort work are packed by what they use, so "
        "that nodes get free.",
    )
    @click.option(
        "--dial",
        metavar="0..10|auto",
        callback=_dial,
        help="For --repack: from 0, as few nodes as possible, to 10, no risk added; auto, the default, "
        "follows how fast late requests spend their allowance.",
    )
    @functools.wraps(main)
    def placed(
        *args: Any,
        placement: str | None,
        nodes: str | None,
        workloads: str | None,
        profiles: str | None,
        target_p99: tuple[str, ...],
        prices: str | None,
        repack_s: float | None,
        dial: str | float | None,
        **values: Any,
    ) -> Any:
        if dial is not None and repack_s is None:
            raise InputError("is for --repack", where="--dial")
        number = None if isinstance(dial, str) else dial
        placing = PlacementOptions(
            placement, nodes, workloads, profiles, target_p99, prices, repack_s, number
        )
        return main(*args, placing=placing, **values)

    return cast("F", placed)


def placed_on(
    found: Sequence[Node],
    service: Service,
    *,
    nodes: str,
    workloads: str,
    profiles: str,
    target_p99: tuple[str, ...],
    standing: Standing,
) -> Placed:
    """Place a service's stages, as documents say, on nodes that there are, beside what stands there.

    Args:
        found: nodes with their classes, in place of those of the document of nodes.
        nodes: path of the document of nodes, of which the classes are used.
        workloads: path of the document of workloads.
        profiles: path of their predictions.
        target_p99: p99 latencies to keep of the whole service, as texts.
        standing: what stands on the nodes.

    Raises:
        InputError: the files do not fit each other or the service, or a workload has no room.
    """
    from kwiken.cli.placing.target_inputs import read_target_inputs

    targets_ms = service_targets([service], target_p99)
    return read_target_inputs(
        nodes,
        workloads,
        profiles,
        None,
        [service],
        service_targets_ms=targets_ms,
        found_nodes=found,
        standing=standing,
    )


def service_targets(services: Sequence[Service], texts: Sequence[str]) -> dict[str, float]:
    """p99 latency to keep of whole services, milliseconds by name, from the texts of the option.

    Args:
        services: services that are started; with one, a text may be the number alone.
        texts: texts of the option, `SERVICE=TIME` or `TIME` each.

    Raises:
        InputError: a text of another form, a number out of range, an unknown service, or one given twice.
    """
    names = [service.name for service in services]
    targets: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals and len(names) == 1:
            name = names[0]
        if name not in names:
            raise InputError(
                f"must be SERVICE=TIME with a service of {', '.join(names)}, not {text!r}",
                where="--target-p99",
            )
        if name in targets:
            raise InputError(f"service {name!r} is given twice", where="--target-p99")
        if (target_ms := milliseconds(number)) is None:
            raise InputError(f"{number!r} is not a latency; write {LATENCY_FORM}", where="--target-p99")
        targets[name] = target_ms
    return targets
