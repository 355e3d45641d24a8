"""Quasar: classification by four matrices, and managers of workloads with targets compared."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.quasar.parts import all_parts as all_parts
