"""Semantic conventions of tracers, old and new: what the attributes of a span say about it."""

from __future__ import annotations

from kwiken.otel.conventions.facts import (
    CLIENT as CLIENT,
    CONSUMER as CONSUMER,
    FAILED as FAILED,
    KINDS as KINDS,
    OK as OK,
    PRODUCER as PRODUCER,
    SERVER as SERVER,
    UNSET as UNSET,
    WANTED as WANTED,
    facts_of as facts_of,
)
from kwiken.otel.conventions.routes import Route as Route
