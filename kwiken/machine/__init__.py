"""Processors and memory of this machine: what this program may use, what it uses, and what is taken away."""

from __future__ import annotations

from kwiken.machine.control_groups import group_folders
from kwiken.machine.memory import memory_limit
from kwiken.machine.processor_use import ProcessorUse, Reading, use_between
from kwiken.machine.reading import processors_given, read_processors

__all__ = [
    "ProcessorUse",
    "Reading",
    "group_folders",
    "memory_limit",
    "processors_given",
    "read_processors",
    "use_between",
]
