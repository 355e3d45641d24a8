"""Check of values against OpenAPI schemas of custom resources."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any


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
