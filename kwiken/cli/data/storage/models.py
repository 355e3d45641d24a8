"""Reading of traces and models that a command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, read_text
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.options import Real

if TYPE_CHECKING:
    from kwiken.storage.model.document import StorageModel
    from kwiken.storage.trace.block_trace import BlockTrace

MAX_TRACE_FILE: Final = 4096 * MIB
MAX_MODEL_FILE: Final = 64 * MIB
FACTOR: Final = Real(1e-6, 1e6)  # of gaps or of times


def load_trace(path: str) -> BlockTrace:
    """Trace in a file, `-` for stdin; what its reader found is noted.

    Raises:
        InputError: names the file and line, and what in it is wrong.
    """
    text = read_text(path, MAX_TRACE_FILE)
    from kwiken.storage.trace.formats import trace_from_text

    trace = trace_from_text(text, where=path)
    for words in trace.notes:
        note(f"note: {path}: {words}")
    return trace


def load_model(path: str) -> StorageModel:
    """Model in a file, `-` for stdin.

    Raises:
        InputError: names the file and field, and what in it is wrong.
    """
    text = read_text(path, MAX_MODEL_FILE)
    from kwiken.storage.model.document import StorageModel

    return StorageModel.from_json(text, where=path)
