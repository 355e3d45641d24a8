"""The `kwiken` command: one thin module a verb, loaded only when that verb is used."""

from __future__ import annotations

from cli._main import kwiken, main

__all__ = ["kwiken", "main"]
