"""Tables and figures of Kwiken: reissues, partial answers and catch-up."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.parts import all_parts as all_parts
