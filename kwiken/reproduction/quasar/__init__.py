"""Quasar: classification by four matrices, and managers of workloads with targets compared."""

from __future__ import annotations

from kwiken.reproduction.quasar.parts import all_parts

__all__ = ["all_parts"]
