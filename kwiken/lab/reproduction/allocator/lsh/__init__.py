"""LSH: characterisation by hashed neighbours, and placement by a hashed search of servers."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.lsh.parts import all_parts as all_parts
