"""Options of `kwiken up` that place replicas on nodes, and keep targets there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kwiken.cli.live.placing.placed import Placed, read_placed
from kwiken.cli.shared import Real
from kwiken.errors import InputError

if TYPE_CHECKING:
    from kwiken.service import Service

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class PlacementOptions:
    """Values of the options.

    Attributes:
        placement: path of the placement; None for none.
        nodes: path of the document of nodes; None for none.
        workloads: path of the document of workloads, whose targets are kept; None for none.
        profiles: path of their predictions; None for none.
        target_p99_ms: p99 latency to keep of the whole service, milliseconds; None for none.
    """

    placement: str | None
    nodes: str | None
    workloads: str | None = None
    profiles: str | None = None
    target_p99_ms: float | None = None

    def arguments(self) -> list[str]:
        """Command-line words of these options."""
        options = {
            "--placement": self.placement,
            "--nodes": self.nodes,
            "--workloads": self.workloads,
            "--profiles": self.profiles,
            "--target-p99": self.target_p99_ms,
        }
        return [word for name, value in options.items() if value is not None for word in (name, str(value))]

    def read(self, service: Service) -> Placed | None:
        """Read what the files say of a service; None without a placement.

        Raises:
            InputError: options or files do not fit each other or the service; names option or file.
        """
        if self.workloads is not None or self.profiles is not None or self.target_p99_ms is not None:
            if self.nodes is None or self.workloads is None or self.profiles is None:
                raise InputError("keeping targets needs --nodes, --workloads and --profiles")
            from kwiken.cli.live.placing.kept import read_kept  # needs the libraries of planning

            return read_kept(
                self.nodes,
                self.workloads,
                self.profiles,
                self.placement,
                service,
                target_p99_ms=self.target_p99_ms,
            )
        if self.placement is None:
            if self.nodes is not None:
                raise InputError("needs --placement, or --workloads and --profiles", where="--nodes")
            return None
        return read_placed(self.placement, self.nodes, service)


def placement_options(main: F) -> F:
    """Add the options to a verb, which gets them as `placing`."""

    @click.option(
        "--placement",
        metavar="FILE",
        help="Placement to follow, from kwiken place: this machine plays its nodes.",
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
        "target_p99_ms",
        type=Real(0.001, 1e9),
        metavar="MS",
        help="p99 latency of the whole service to keep, milliseconds.",
    )
    @functools.wraps(main)
    def placed(
        *args: Any,
        placement: str | None,
        nodes: str | None,
        workloads: str | None,
        profiles: str | None,
        target_p99_ms: float | None,
        **values: Any,
    ) -> Any:
        placing = PlacementOptions(placement, nodes, workloads, profiles, target_p99_ms)
        return main(*args, placing=placing, **values)

    return cast("F", placed)
