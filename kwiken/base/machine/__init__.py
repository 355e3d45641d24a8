"""Processors and memory of this machine: what this program may use, what it uses, and what is taken away."""

from __future__ import annotations

from kwiken.base.machine.control_groups import group_folders as group_folders
from kwiken.base.machine.files import (
    MIB as MIB,
    READABLE as READABLE,
    open_own as open_own,
    open_regular as open_regular,
    own_folder as own_folder,
    read_file as read_file,
    read_own as read_own,
    replace_own as replace_own,
)
from kwiken.base.machine.memory import memory_limit as memory_limit
from kwiken.base.machine.processor_use import (
    ProcessorUse as ProcessorUse,
    Reading as Reading,
    use_between as use_between,
)
from kwiken.base.machine.reading import (
    processors_given as processors_given,
    read_processors as read_processors,
)
