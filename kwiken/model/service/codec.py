"""Strict codecs of service definitions: plain values, JSON, YAML and networkx graphs, both ways.

A document holds the DAG and its settings. Handlers, utility functions, `setup` and the page are code, so they
are part of the Python definition only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.extras import needs
from kwiken.base.parsing.strict_json import check_version, convert, parse_json, to_str
from kwiken.model.service.remote import Remote
from kwiken.model.service.request_kinds import RequestKinds
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage

VERSION: Final = 1
_NEEDED: Final = {"version", "service", "stages"}
_FIELDS: Final = _NEEDED | {"lines"}
_FIRST_FIELD = re.compile(r"\w+(?=[:\[.])")  # of an error's message, such as `after[0]: Expected ...`
Lines = Mapping[tuple[str | int, ...], int]


class DocumentLines:
    """Document in errors.

    Args:
        name: name of the document, such as a file's path.
        lines: line of each value, from 1, by the fields and positions that lead to the value; None for a
            document of which the lines are unknown.
    """

    def __init__(self, name: str, lines: Lines | None = None) -> None:
        self._name = name
        self._lines = lines

    def at(self, *path: str | int) -> str:
        """Name of the document, with the line of a value, or of the nearest one that would hold the value."""
        if self._lines is None:
            return self._name
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._name}:{self._lines.get(path, 1)}"

    @contextlib.contextmanager
    def naming_lines(self, stages: Mapping[str, int]) -> Iterator[None]:
        """Name the line in errors of a definition; without lines they stay as they are.

        Args:
            stages: position from 0 in the document of each stage that the body defines, by name.

        Raises:
            InputError: the definition's error, with the line of the stage, or of the field of the stage that
                the error begins with; an error of no stage has the line of the service's name.
        """
        try:
            yield
        except DefinitionError as error:
            if self._lines is None:
                raise
            place: tuple[str | int, ...] = ("service",)
            if error.stage is not None and error.stage in stages:
                place = ("stages", stages[error.stage])
                field = str(error).removeprefix(f"stage {error.stage!r}: ").partition(" ")[0].strip("`:")
                place = (*place, field) if (*place, field) in self._lines else place
            raise InputError(str(error), where=self.at(*place)) from error


class StageDoc(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a stage in a document; see `Stage` for their meaning."""

    name: str
    after: tuple[str, ...] = ()
    fanout: int = 1
    replicas: int = 1
    idempotent: bool = False
    optional: bool = False
    items_so_far: bool = False
    utility_weight: float = 1.0
    timeout_ms: float = 5000.0
    attempt_timeout_ms: float | None = None
    threads: int = 1
    cost: float | None = None
    reissue: Reissue | None = None
    remote: Remote | None = None


_DEFAULTS: Final = {field.name: field.default for field in dataclasses.fields(Stage)}


def service_to_dict(service: Service) -> dict[str, Any]:
    """Encode a service as plain values: strings, numbers, booleans, lists and dicts."""
    return {
        "version": VERSION,
        "service": service.name,
        **({"lines": service.lines} if service.lines is not None else {}),
        "stages": [stage_to_dict(stage) for stage in service.stages.values()],
    }


def stage_to_dict(stage: Stage) -> dict[str, Any]:
    """Encode the settings of a stage that differ from their defaults as plain values."""
    plain = {name: getattr(stage, name) for name in StageDoc.__struct_fields__}
    told = {name: value for name, value in plain.items() if value != _DEFAULTS[name]}
    return {
        name: list(value) if name == "after" else msgspec.to_builtins(value) for name, value in told.items()
    }


def service_from_dict(raw: Any, *, where: str = "service") -> Service:
    """Decode a service from plain values.

    Args:
        raw: values as `service_to_dict` returns them.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for another version, an unknown or missing field, or a wrong type; names the stage and the
            field.
        DefinitionError: for settings or edges that no service can have; names the stage.
    """
    return _service(raw, DocumentLines(where))


def _service(raw: Any, source: DocumentLines) -> Service:
    if not isinstance(raw, dict):
        raise InputError(f"must hold an object with the fields {_listed(_FIELDS)}", where=source.at())
    check_version(raw.get("version"), VERSION, where=source.at("version"))
    for field in raw.keys() - _FIELDS:
        raise InputError(f"unknown field {field!r}; known: {_listed(_FIELDS)}", where=source.at(field))
    for field in _NEEDED - raw.keys():
        raise InputError(f"the field {field!r} is missing", where=source.at())
    if not isinstance(raw["stages"], list):
        raise InputError("'stages' must be a list", where=source.at("stages"))
    name = convert(raw["service"], str, where=f"{source.at('service')}: service")
    told = raw.get("lines")
    lines = convert(told, str, where=f"{source.at('lines')}: lines") if told is not None else None
    if lines is not None:
        RequestKinds.parse(lines, where=source.at("lines"))
    stages = [_stage(stage, index, source) for index, stage in enumerate(raw["stages"])]
    with source.naming_lines({stage.name: index for index, stage in enumerate(stages)}):
        return Service.of(name, stages, lines=lines)


def _stage(raw: Any, index: int, source: DocumentLines) -> Stage:
    """Decode one stage from plain values."""
    name = raw.get("name") if isinstance(raw, dict) else None
    title = f"stage {name!r}" if isinstance(name, str) else f"stage number {index + 1}"
    known = set(StageDoc.__struct_fields__)
    for field in raw.keys() - known if isinstance(raw, dict) else ():
        raise InputError(
            f"unknown field {field!r}; known: {_listed(known)}",
            where=f"{source.at('stages', index, field)}: {title}",
        )
    try:
        document = convert(raw, StageDoc, where=title)
    except InputError as error:
        field = _FIRST_FIELD.match(error.problem)
        line = source.at("stages", index, *((field[0],) if field else ()))
        raise InputError(error.problem, where=f"{line}: {title}") from error
    with source.naming_lines({document.name: index}):
        return Stage(**{field: getattr(document, field) for field in StageDoc.__struct_fields__})


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def service_to_json(service: Service) -> str:
    """Encode a service as JSON that `service_from_json` reads."""
    return msgspec.json.format(msgspec.json.encode(service_to_dict(service)), indent=1).decode() + "\n"


def service_from_json(text: str | bytes, *, where: str = "service") -> Service:
    """Decode a service from JSON; errors as `service_from_dict`, and broken JSON names the line.

    Args:
        where: source to name in errors, such as a file's path.
    """
    return service_from_dict(parse_json(text, where=where), where=where)


def service_to_yaml(service: Service) -> str:
    """Encode a service as YAML that `service_from_yaml` reads."""
    with needs("kwiken.service_to_yaml", "plan"):
        import yaml

    return yaml.safe_dump(service_to_dict(service), sort_keys=False, allow_unicode=True)


def service_from_yaml(text: str | bytes, *, where: str = "service") -> Service:
    """Decode a service from YAML.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for broken YAML, an unknown or missing field, a wrong type, or settings or edges that no
            service can have; names the line.
    """
    return _from_yaml(text, where)[0]


def foreign_service_from_yaml(text: str | bytes, *, where: str = "service") -> Service:
    """Decode from YAML a service that can be run: a complete one whose stages are all served by others.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: as `service_from_yaml`, for a stage without `remote`, or for a service that cannot be run;
            names the line.
    """
    service, source, stages = _from_yaml(text, where)
    for name, index in stages.items():
        if service[name].remote_call is None:
            raise InputError(
                f"stage {name!r} has no `remote`: a document holds no code, so name the service that runs it",
                where=source.at("stages", index),
            )
    with source.naming_lines(stages):
        service.check()
    return service


def _from_yaml(text: str | bytes, where: str) -> tuple[Service, DocumentLines, dict[str, int]]:
    """Service, its document, and the position of each stage in the document."""
    with needs("a service in YAML", "plan"):
        from kwiken.base.parsing.strict_yaml import parse_yaml

    raw, lines = parse_yaml(to_str(text, where=where), where=where)
    source = DocumentLines(where, lines)
    service = _service(raw, source)
    return service, source, {stage["name"]: index for index, stage in enumerate(raw["stages"])}


def service_to_graph(service: Service) -> Any:
    """Convert a service to a `networkx.DiGraph`.

    Nodes have the settings that differ from their defaults as attributes. An edge has `position`, the index
    of the parent among the child's parameters. The graph has `version` and `service`.
    """
    with needs("kwiken.service_to_graph", "plan"):
        import networkx as nx

    graph: Any = nx.DiGraph(
        **{name: value for name, value in service_to_dict(service).items() if name != "stages"}
    )
    for stage in service.stages.values():
        settings = stage_to_dict(stage)
        graph.add_node(settings.pop("name"), **{key: settings[key] for key in settings if key != "after"})
        for position, parent in enumerate(stage.after):
            graph.add_edge(parent, stage.name, position=position)
    return graph


def service_from_graph(graph: Any, *, name: str | None = None) -> Service:
    """Convert a `networkx.DiGraph` from any source to a service.

    Args:
        graph: graph whose nodes are stage names, with settings as attributes. Parents are ordered by the
            edges' `position` where they have one, else as they were added.
        name: name of the service; None for the graph's attribute `service`.

    Raises:
        InputError: for anything but a simple directed graph, an unknown attribute, or a wrong type.
        DefinitionError: for a cycle, or settings that no stage can have.
    """
    with needs("kwiken.service_from_graph", "plan"):
        import networkx as nx

    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise InputError("must be a simple directed graph (networkx.DiGraph)", where="graph")
    if not all(isinstance(node, str) for node in graph):
        raise InputError("every node must be a string, the stage's name", where="graph")
    stages = []
    for node, settings in graph.nodes(data=True):
        for field in settings.keys() & {"name", "after"}:
            raise InputError(
                f"unknown field {field!r}; nodes and edges of the graph define it",
                where=f"graph: stage {node!r}",
            )
        stages.append({"name": node, "after": _parents(graph, node), **settings})
    title = name if name is not None else graph.graph.get("service")
    version = graph.graph.get("version", VERSION)
    document = {"version": version, "service": title, "stages": stages}
    if (lines := graph.graph.get("lines")) is not None:
        document["lines"] = lines
    return service_from_dict(document, where="graph")


def _parents(graph: Any, node: str) -> list[str]:
    edges = list(graph.in_edges(node, data="position"))
    for parent, _, position in edges:
        if position is not None and not isinstance(position, int):
            raise InputError(
                f"position must be a whole number, not {position!r}", where=f"edge {parent}->{node}"
            )
    placed = [
        (position if position is not None else index, index, parent)
        for index, (parent, _, position) in enumerate(edges)
    ]
    return [parent for _, _, parent in sorted(placed)]
