"""Console: output for users, the words of notes, and the standard streams and signals of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.console.bands import BANDS as BANDS
    from kwiken.apps.console.notes import (
        drift_words as drift_words,
        note_sentences as note_sentences,
        note_summaries as note_summaries,
        note_words as note_words,
    )
    from kwiken.apps.console.output import (
        Bar as Bar,
        check_writable as check_writable,
        note as note,
        note_written as note_written,
        print_json as print_json,
        print_table as print_table,
        progress as progress,
        read_text as read_text,
        reason_of as reason_of,
        room_in as room_in,
        say as say,
        write_text as write_text,
    )
    from kwiken.apps.console.process import (
        Terminated as Terminated,
        heed_signals as heed_signals,
        open_standard_files as open_standard_files,
        silence as silence,
        unheed_signals as unheed_signals,
    )

__getattr__ = lazy_names(__name__, __file__)
