"""Semantic conventions of tracers, old and new: facts on a span from its attributes."""

from __future__ import annotations

from kwiken.otel.conventions.callees import folded_query as folded_query, with_address as with_address
from kwiken.otel.conventions.facts import (
    CLIENT as CLIENT,
    CONSUMER as CONSUMER,
    FAILED as FAILED,
    KINDS as KINDS,
    OK as OK,
    PATHS as PATHS,
    PRODUCER as PRODUCER,
    QUERIES as QUERIES,
    SERVER as SERVER,
    UNSET as UNSET,
    WANTED as WANTED,
    facts_of as facts_of,
)
from kwiken.otel.conventions.routes import (
    Route as Route,
    folded_url as folded_url,
    is_generic as is_generic,
    method_that_counts as method_that_counts,
)
