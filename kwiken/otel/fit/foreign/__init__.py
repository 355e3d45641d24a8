"""Traces of services that do not run on kwiken, fitted: child calls become stages."""

from __future__ import annotations

from kwiken.otel.fit.foreign.foreign import fit_foreign as fit_foreign
from kwiken.otel.fit.foreign.like_profile import fit_like as fit_like, origin_of as origin_of
from kwiken.otel.fit.foreign.reads_below import Below as Below, seen_below as seen_below
from kwiken.otel.fit.foreign.stage_names import short_ends as short_ends, short_names as short_names
