"""Shared parts of the verbs: options, input and output, error messages, signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.shared.bands import BANDS
    from kwiken.cli.shared.errors import VerbContext
    from kwiken.cli.shared.input_files import check_apart, check_exist
    from kwiken.cli.shared.notes import drift_words, note_sentences, note_summaries, note_words
    from kwiken.cli.shared.options import (
        NOT_NEGATIVE,
        OBJECTIVES,
        POSITIVE,
        SHARE,
        Real,
        check_belongs,
        given,
        json_option,
        load_plan,
        load_profile,
        load_service,
        needs_extra,
        out_option,
        refuse_shared_stdout,
        seconds_of,
        seed_option,
    )
    from kwiken.cli.shared.output import (
        MIB,
        Bar,
        note,
        note_written,
        print_json,
        print_table,
        progress,
        read_text,
        reason_of,
        room_in,
        say,
        write_text,
    )
    from kwiken.cli.shared.process import (
        Terminated,
        heed_signals,
        open_standard_files,
        silence,
        unheed_signals,
    )

__all__ = [
    "BANDS",
    "MIB",
    "NOT_NEGATIVE",
    "OBJECTIVES",
    "POSITIVE",
    "SHARE",
    "Bar",
    "Real",
    "Terminated",
    "VerbContext",
    "check_apart",
    "check_belongs",
    "check_exist",
    "drift_words",
    "given",
    "heed_signals",
    "json_option",
    "load_plan",
    "load_profile",
    "load_service",
    "needs_extra",
    "note",
    "note_sentences",
    "note_summaries",
    "note_words",
    "note_written",
    "open_standard_files",
    "out_option",
    "print_json",
    "print_table",
    "progress",
    "read_text",
    "reason_of",
    "refuse_shared_stdout",
    "room_in",
    "say",
    "seconds_of",
    "seed_option",
    "silence",
    "unheed_signals",
    "write_text",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.shared.bands": ("BANDS",),
        "kwiken.cli.shared.errors": ("VerbContext",),
        "kwiken.cli.shared.input_files": ("check_apart", "check_exist"),
        "kwiken.cli.shared.notes": (
            "drift_words",
            "note_sentences",
            "note_summaries",
            "note_words",
        ),
        "kwiken.cli.shared.options": (
            "NOT_NEGATIVE",
            "OBJECTIVES",
            "POSITIVE",
            "Real",
            "SHARE",
            "check_belongs",
            "given",
            "json_option",
            "load_plan",
            "load_profile",
            "load_service",
            "needs_extra",
            "out_option",
            "refuse_shared_stdout",
            "seconds_of",
            "seed_option",
        ),
        "kwiken.cli.shared.output": (
            "Bar",
            "MIB",
            "note",
            "note_written",
            "print_json",
            "print_table",
            "progress",
            "read_text",
            "reason_of",
            "room_in",
            "say",
            "write_text",
        ),
        "kwiken.cli.shared.process": (
            "Terminated",
            "heed_signals",
            "open_standard_files",
            "silence",
            "unheed_signals",
        ),
    },
)
