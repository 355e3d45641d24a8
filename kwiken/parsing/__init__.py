"""Strict parsers of untrusted JSON, TOML and YAML: bounded, no duplicates; errors name line or field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.parsing.strict_json import convert, parse_json, to_str
    from kwiken.parsing.strict_toml import parse_toml
    from kwiken.parsing.strict_yaml import parse_yaml

__all__ = ["convert", "parse_json", "parse_toml", "parse_yaml", "to_str"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.parsing.strict_json": (
            "convert",
            "parse_json",
            "to_str",
        ),
        "kwiken.parsing.strict_toml": ("parse_toml",),
        "kwiken.parsing.strict_yaml": ("parse_yaml",),
    },
)
