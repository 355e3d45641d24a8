"""Strict checks of manifests: against OpenAPI schemas of custom resources, and the types of Kubernetes' API."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

import pytest
import yaml

CLIENT = ("k8s.io/client-go", "v0.34.1", "applyconfigurations/internal/internal.go")


@cache
def file_of_module(module: str, version: str, path: str) -> str:
    """Text of a file of a Go module, as `go mod download` brings it; the test is skipped where it cannot."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"go is not installed, so {path} of {module} cannot be had")
    try:
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{module}@{version}"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            check=False,
        )
        folder = json.loads(done.stdout)["Zip"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        pytest.skip(f"the Go module {module} cannot be had here")
    with zipfile.ZipFile(folder) as archive:
        return archive.read(f"{module}@{version}/{path}").decode()


def schema_of_resource(module: str, version: str, path: str) -> dict[str, Any]:
    """OpenAPI schema of the first version in a file with a custom resource's definition."""
    found = yaml.safe_load(file_of_module(module, version, path))
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@cache
def _types() -> dict[str, dict[str, Any]]:
    """Types of the API of Kubernetes 1.34 by name, as its client knows them for server-side apply."""
    text = file_of_module(*CLIENT)
    begin = text.index("typed.YAMLObject(`") + len("typed.YAMLObject(`")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read: Any = yaml.load(text[begin : text.rindex("`)")], Loader=loader)
    return {each["name"]: each for each in read["types"]}


def faults_of_object(manifest: dict[str, Any]) -> list[str]:
    """Where an object breaks the type that Kubernetes' API has for its kind: unknown fields, other kinds of value."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    short = group.partition(".")[0] or "core"
    name = f"io.k8s.api.{short}.{version}.{manifest['kind']}"
    if name not in _types():
        return [f"{name} is no type of the API"]
    return _typed(manifest, {"namedType": name}, manifest["kind"])


def _typed(value: Any, of: dict[str, Any], at: str) -> list[str]:
    known = _types()[of["namedType"]] if "namedType" in of else of
    scalars: dict[str, Any] = {"string": str, "numeric": (int, float), "boolean": bool}
    if known.get("scalar") == "untyped":
        return []
    if (kind := scalars.get(known.get("scalar", ""))) is not None:
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return [] if fits else [f"{at}: {value!r} is no {known['scalar']}"]
    if "list" in known:
        if not isinstance(value, list):
            return [f"{at}: {value!r} is no list"]
        element = known["list"]["elementType"]
        return [fault for i, each in enumerate(value) for fault in _typed(each, element, f"{at}[{i}]")]
    if not isinstance(value, dict):
        return [f"{at}: {value!r} is no object"]
    fields = {each["name"]: each["type"] for each in known["map"].get("fields", ())}
    others = known["map"].get("elementType")
    found = []
    for name, inner in value.items():
        kind_of = fields.get(name, others)
        found += [f"{at}.{name} is unknown"] if kind_of is None else _typed(inner, kind_of, f"{at}.{name}")
    return found


def faults(value: Any, schema: dict[str, Any], at: str, open_at: AbstractSet[str] = frozenset()) -> list[str]:
    """Where a value breaks an OpenAPI schema; rules in CEL are not checked.

    Args:
        open_at: places that take anything, such as the metadata of a resource.
    """
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kind = schema.get("type")
    if kind in kinds and not isinstance(value, kinds[kind]):
        return [f"{at}: {value!r} is no {kind}"]
    found: list[str] = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], str(value)):
        found.append(f"{at}: {value!r} is not of {schema['pattern']}")
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{at}: {value} is out of range")
    if isinstance(value, dict) and at not in open_at:
        found += [f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is None:
                found.append(f"{at}.{name} is unknown")
            elif known is not True:
                found += faults(inner, known, f"{at}.{name}", open_at)
    for place, inner in enumerate(value if isinstance(value, list) else ()):
        found += faults(inner, schema.get("items", {}), f"{at}[{place}]", open_at)
    return found
