"""Tables of Quasar: classification by scale-up, scale-out, heterogeneity and interference."""

from __future__ import annotations

from kwiken.reproduction.quasar.tables import all_parts

__all__ = ["all_parts"]
