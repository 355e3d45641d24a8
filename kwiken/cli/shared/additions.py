"""Additions of the half that sizes and places to verbs of the half that buys p99: a table, no imports.

Without the modules of the other half the verbs work on: `up` without nodes, `export` without its documents.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from kwiken.model.service.service import Service
    from kwiken.runtime.cluster.cluster import Cluster
    from kwiken.runtime.cluster.layout import Layout, ReplicaPlace

F = TypeVar("F", bound=Callable[..., Any])
ADDITIONS: Final = {"up": "kwiken.cli.placing.options", "export": "kwiken.cli.placing.export_documents"}


class Nodes(Protocol):
    """Nodes on which replicas are placed, as a verb's options say."""

    @property
    def replicas(self) -> Mapping[str, Mapping[str, list[ReplicaPlace]]]:
        """Places of replicas by service and stage."""


class NodePlacing(Protocol):
    """Options of `kwiken up` that place replicas on nodes."""

    def read(self, services: Sequence[Service]) -> Nodes | None:
        """Read what the files say of some services; None without nodes."""

    def running(
        self, starts: Mapping[str, Callable[[Layout | None], Cluster]], nodes: Any, folder: Path
    ) -> AbstractAsyncContextManager[
        tuple[dict[str, Cluster], Callable[[asyncio.Event], Coroutine[Any, Any, None]] | None]
    ]:
        """Clusters on the nodes, and what keeps targets there until an event is set; None if nothing does."""


class DocumentExports(Protocol):
    """Documents of the half that places, as settings of other programs."""

    PROGRAMS: tuple[str, ...]

    def kept_stages(self, service: Service, nodes: str, workloads: str, profiles: str) -> frozenset[str]:
        """Stages whose targets an upkeep keeps by these documents, which are checked as the upkeep does."""

    def write_document(self, path: str, program: str, out: str) -> None:
        """Write a document's settings for one program."""


def placing_options(verb: F) -> F:
    """Add the options that place replicas to a verb, which gets them as `placing`; None without them."""
    module = _addition("up")
    if module is not None:
        options: Callable[[F], F] = module.placement_options
        return options(verb)

    @functools.wraps(verb)
    def without(*args: Any, **values: Any) -> Any:
        return verb(*args, placing=None, **values)

    return cast("F", without)


def document_exports() -> DocumentExports | None:
    """Exports of documents of the half that places; None without it."""
    exports: DocumentExports | None = _addition("export")
    return exports


def _addition(verb: str) -> Any:
    name = ADDITIONS[verb]
    return importlib.import_module(name) if find_spec(name.rpartition(".")[0]) is not None else None
