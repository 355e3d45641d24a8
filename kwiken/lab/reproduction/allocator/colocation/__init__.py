"""Colocation at a hyperscaler: packing by percentiles of use, softened by sensitivity scores."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.colocation.parts import all_parts as all_parts
