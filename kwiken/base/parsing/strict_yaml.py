"""Strict parser of untrusted YAML: safe types only, no aliases, no duplicate fields; errors name the line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import yaml

from kwiken.base.errors import InputError

MAX_DEPTH: Final = 32
_COLLECTIONS: Final = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
YamlPath = tuple[str | int, ...]
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(source: str, *, where: str) -> tuple[Any, Mapping[YamlPath, int]]:
    """Parse one YAML document to plain Python values and the line of each, from 1.

    A value's path holds the fields and the positions from 0 that lead to the value, and is empty for the
    document. The line of a field is that of its name.

    Args:
        source: YAML document, whose size the caller has bounded.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for broken syntax, an alias or anchor, a duplicate field, a key that is not a string, NaN
            or infinity, or nesting beyond 32; names the line.
    """
    try:
        _check_events(source, where)
        lines: dict[YamlPath, int] = {}
        return _value(_BASE(source), where, lines), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        last = source.count("\n") + 1  # for a truncated document the parser names a line after the last
        line = f"{where}:{min(mark.line + 1, last)}" if mark is not None else where
        raise InputError(f"broken YAML: {error.problem or error.context}", where=line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"broken YAML: {' '.join(str(error).split())}", where=where) from error


def _check_events(source: str, where: str) -> None:
    """Refuse aliases and deep nesting before values are built: both let a small file make huge values."""
    depth = 0
    event: Any
    for event in yaml.parse(source, Loader=_BASE):
        line = f"{where}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InputError("anchors and aliases are not taken; write the value out", where=line)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InputError(f"is nested deeper than {MAX_DEPTH}", where=line)


def _value(loader: Any, where: str, lines: dict[YamlPath, int]) -> Any:
    try:
        node = loader.get_single_node()
        return None if node is None else _build(loader, node, where, (), lines)
    finally:
        loader.dispose()


def _build(loader: Any, node: Any, where: str, path: YamlPath, lines: dict[YamlPath, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    line = f"{where}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
        raise InputError(f"the tag {node.tag!r} is not taken", where=line)
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, where, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, where, (*path, place), lines) for place, item in enumerate(node.value)]
    try:
        value = loader.construct_object(node)
    except ValueError as error:  # a date or number of valid form and invalid value
        raise InputError(f"{node.value[:40]!r} cannot be read: {error}", where=line) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{node.value} is not a number that can be used", where=line)
    return value


def _mapping(
    loader: Any, node: Any, where: str, path: YamlPath, lines: dict[YamlPath, int]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = f"{where}:{key_node.start_mark.line + 1}"
        if not (isinstance(key_node, yaml.ScalarNode) and key_node.tag == "tag:yaml.org,2002:str"):
            raise InputError("a field's name must be plain text", where=line)
        key = str(key_node.value)
        if key in found:
            raise InputError(f"the field {key!r} is given twice", where=line)
        lines[*path, key] = key_node.start_mark.line + 1
        found[key] = _build(loader, value_node, where, (*path, key), lines)
    return found
