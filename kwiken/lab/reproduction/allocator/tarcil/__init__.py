"""Results of Tarcil: guarantees of samples, schedulers of short tasks, large clusters."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.tarcil.parts import all_parts as all_parts
