"""Tables and figures of Kwiken: reissues, partial answers and catch-up."""

from __future__ import annotations

from kwiken.reproduction.kwiken.parts import all_parts

__all__ = ["all_parts"]
