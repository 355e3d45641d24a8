"""Queries in SQL: what a statement does, whatever it begins with."""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)|--[^\n]*(?:\n|\Z)", re.DOTALL)
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_VERB: Final = re.compile(
    r"^[\s(;]*(select|insert|update|delete|merge|replace|upsert|truncate|with|call)\b", re.IGNORECASE
)
# Statements inside of others: behind `WITH x AS (`, behind a semicolon, or in a union.
_INNER_WRITE: Final = re.compile(
    r"\b(insert|delete|merge|truncate)\b(?!\s*\()|[(;]\s*(update)\b|\b(update)\s+\S+\s+set\b", re.IGNORECASE
)
_SELECTS: Final = re.compile(
    r"\bselect\b.*\bfrom\b|\bwith\b.*\b(?:insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL
)
_NAMED: Final = re.compile(r"(?:\bwith|\brecursive|,)\s+(\w+)\s*\([^()]*\)\s+as\b", re.IGNORECASE)
_LOCKS: Final = re.compile(
    r"\bfor\s+(?:no\s+key\s+|key\s+)?(?:update|share)\b|\block\s+in\s+share\b"
    r"|\b(?:updlock|xlock|tablockx|holdlock)\b|\binto\b",
    re.IGNORECASE,
)
_CALLED: Final = re.compile(r"\b([a-z_][\w.]*)\s*\(", re.IGNORECASE)
# Words before a parenthesis that call nothing, and functions that only compute. All others may write.
# fmt: off
_PURE: Final = frozenset(
    {
        "abs", "all", "and", "any", "as", "avg", "between", "bit_length", "by", "case", "cast",
        "ceil", "ceiling", "char", "char_length", "coalesce", "concat", "concat_ws", "contains",
        "convert", "count", "cube", "cume_dist", "current_date", "current_timestamp", "day",
        "decimal", "dense_rank", "distinct", "else", "except", "exists", "extract", "filter",
        "first_value", "floor", "format", "from", "generate_series", "getdate", "greatest", "group",
        "group_concat", "having", "hour", "if", "ifnull", "in", "instr", "intersect", "interval",
        "isnull", "join", "key", "lag", "last_value", "lateral", "lcase", "lead", "least", "left",
        "len", "length", "like", "limit", "ln", "log", "lower", "lpad", "ltrim", "match",
        "materialized", "max", "md5", "median", "min", "minute", "mod", "month", "not", "now",
        "ntile", "nullif", "numeric", "nvl", "offset", "on", "or", "order", "over", "partition",
        "percentile_cont", "percentile_disc", "position", "pow", "power", "quarter", "rand", "random",
        "rank", "regexp_replace", "replace", "reverse", "right", "rollup", "round", "row",
        "row_number", "rpad", "rtrim", "second", "select", "sets", "sign", "similarity", "some",
        "split_part", "sqrt", "stddev", "string_agg", "substr", "substring", "sum", "sysdate", "then",
        "timestamp", "top", "translate", "trim", "trunc", "ucase", "union", "unnest", "upper",
        "using", "values", "varchar", "variance", "week", "when", "where", "with", "within", "year"
    }
)
# fmt: on
_PURE_STARTS: Final = ("st_", "json", "array_", "date", "to_", "ts_", "bool_", "bit_", "regexp_", "time")


def query_verb(statement: str) -> str:
    """What a statement does, as its verb; empty for a text that is no SQL.

    There are five cases:

    1. A write stands somewhere in the statement, as in `WITH x AS (DELETE ...) SELECT ...`: its verb.
    2. The statement begins with another verb than `SELECT` or `WITH`: that verb.
    3. It locks rows or fills a table: `SELECT FOR UPDATE`.
    4. It calls a function that may do anything: `SELECT name()`.
    5. Otherwise `SELECT`.
    """
    bare = _TEXT.sub("''", _COMMENT.sub(" ", statement))
    found = _VERB.match(bare)
    if found is None:
        return ""
    verb = found[1].upper()
    if verb not in {"SELECT", "WITH"}:
        return verb
    # A name such as `select seat` or `with retries` is no statement.
    if (verb == "WITH" or found[1] != verb) and _SELECTS.search(bare) is None:
        return ""
    written = _INNER_WRITE.search(bare)
    return written[written.lastindex or 0].upper() if written is not None else _selecting(bare)


def _selecting(statement: str) -> str:
    """Verb of a statement that selects: whether it locks rows or calls a function that may do anything."""
    if _LOCKS.search(statement):
        return "SELECT FOR UPDATE"
    named = {name.lower() for name in _NAMED.findall(statement)}  # `WITH x (columns) AS ...`
    for function in _CALLED.findall(statement):
        name = function.lower().rpartition(".")[2]
        if name not in _PURE and name not in named and not name.startswith(_PURE_STARTS):
            return f"SELECT {name}()"
    return "SELECT"


def without_comments(text: str) -> str:
    """Text without comments of SQL at its start."""
    while (stripped := text.lstrip()).startswith(("/*", "--")):
        text = _COMMENT.sub("", stripped, count=1)
    return text
