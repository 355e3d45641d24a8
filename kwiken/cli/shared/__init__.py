"""Shared parts of the verbs: options, input files, error messages, findings on a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.shared.document_sizes import (
        MAX_NODES_FILE as MAX_NODES_FILE,
        MAX_PLACEMENT as MAX_PLACEMENT,
        MAX_PROFILES as MAX_PROFILES,
        MAX_QUEUES_FILE as MAX_QUEUES_FILE,
        MAX_WORKLOADS_FILE as MAX_WORKLOADS_FILE,
    )
    from kwiken.cli.shared.engines import (
        engine_at as engine_at,
        engine_options as engine_options,
        spread as spread,
    )
    from kwiken.cli.shared.input_files import (
        check_apart as check_apart,
        check_exist as check_exist,
        named_by as named_by,
    )
    from kwiken.cli.shared.options import (
        LATENCY_FORM as LATENCY_FORM,
        NOT_NEGATIVE as NOT_NEGATIVE,
        OBJECTIVES as OBJECTIVES,
        POSITIVE as POSITIVE,
        SHARE as SHARE,
        Real as Real,
        check_belongs as check_belongs,
        copyable_option as copyable_option,
        during_of as during_of,
        during_option as during_option,
        given as given,
        json_option as json_option,
        load_plan as load_plan,
        load_profile as load_profile,
        load_service as load_service,
        milliseconds as milliseconds,
        needs_extra as needs_extra,
        once_option as once_option,
        out_option as out_option,
        refuse_shared_stdout as refuse_shared_stdout,
        sampled_option as sampled_option,
        seconds_of as seconds_of,
        seed_option as seed_option,
        service_name as service_name,
    )
    from kwiken.cli.shared.profile_findings import (
        drift_summary as drift_summary,
        note_contradicted as note_contradicted,
        note_cut_short as note_cut_short,
        note_few as note_few,
        note_one_trace as note_one_trace,
        show_drift as show_drift,
    )
    from kwiken.cli.shared.verb_group import LazyCommand as LazyCommand, LazyGroup as LazyGroup

__getattr__ = lazy_names(__name__, __file__)
