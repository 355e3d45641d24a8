"""Idempotence of calls that traces do not state: by methods, names, queries and the spans below."""

from __future__ import annotations

from kwiken.model.profile.idempotence.marks import (
    Evidence as Evidence,
    idempotence_notes as idempotence_notes,
    kept_copyable as kept_copyable,
    kept_single as kept_single,
    taken_for as taken_for,
    why_write as why_write,
)
from kwiken.model.profile.idempotence.names import (
    http_method as http_method,
    names_grpc as names_grpc,
    reads_a_store as reads_a_store,
    says_read as says_read,
    says_write as says_write,
    states_no_work as states_no_work,
)
from kwiken.model.profile.idempotence.queries import query_verb as query_verb
