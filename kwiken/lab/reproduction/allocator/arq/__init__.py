"""Results of ARQ: lines by quality of node, changes of line, and what they keep of quality of service."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.arq.parts import all_parts as all_parts
