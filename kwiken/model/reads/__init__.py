"""Reads and writes: told apart by the name, the method or the query of a call."""

from __future__ import annotations

from kwiken.model.reads.names import (
    WRITING_METHODS as WRITING_METHODS,
    asks_graphql as asks_graphql,
    http_method as http_method,
    names_grpc as names_grpc,
    path_changes as path_changes,
    reads_a_store as reads_a_store,
    says_read as says_read,
    says_write as says_write,
    states_no_work as states_no_work,
)
from kwiken.model.reads.queries import query_verb as query_verb
