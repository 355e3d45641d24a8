"""Strict parsers of untrusted JSON, TOML and YAML: bounded, no duplicates; errors name line or field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.base.parsing.strict_json import (
        check_version as check_version,
        convert as convert,
        parse_json as parse_json,
        to_str as to_str,
    )
    from kwiken.base.parsing.strict_toml import parse_toml as parse_toml
    from kwiken.base.parsing.strict_yaml import parse_yaml as parse_yaml

__getattr__ = lazy_names(__name__, __file__)
