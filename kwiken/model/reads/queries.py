"""Queries in SQL: reads and writes, told apart by all keywords of a statement."""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)|--[^\n]*(?:\n|\Z)", re.DOTALL)
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_VERB: Final = re.compile(
    r"^[\s(;]*(select|insert|update|delete|merge|replace|upsert|truncate|with|call)\b", re.IGNORECASE
)
# Other statements, of which only the first word counts.
_OTHER: Final = re.compile(
    r"^[\s(;]*(alter|analyze|copy|create|declare|do|drop|exec|execute|explain|grant|load|lock|notify|refresh"
    r"|revoke|vacuum|values)\b",
    re.IGNORECASE,
)
# Statements inside of others: behind `WITH x AS (`, behind a semicolon, or in a union.
_INNER_WRITE: Final = re.compile(
    r"\b(insert|delete|merge|truncate)\b(?!\s*\()|[(;]\s*(update)\b|\b(update)\s+\S+\s+set\b", re.IGNORECASE
)
_SELECTS: Final = re.compile(
    r"\bselect\b.*\bfrom\b|\bwith\b.*\b(?:insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL
)
_NAMED: Final = re.compile(r"(?:\bwith|\brecursive|,)\s+(\w+)\s*\([^()]*\)\s+as\b", re.IGNORECASE)
# Texts without `FROM`, such as `SELECT carts UPDATE stock`, with which some tracers sum up what was asked.
_SUMMED_WRITE: Final = re.compile(r"\b(UPDATE|REPLACE|UPSERT|CREATE|DROP|ALTER|CALL|EXEC|EXECUTE)\b(?!\s*\()")
_FROM: Final = re.compile(r"\bfrom\b", re.IGNORECASE)
# First words of further statements that change nothing which is kept.
_NO_CHANGE: Final = frozenset(("BEGIN", "COMMIT", "END", "ROLLBACK", "SET", "SHOW", "START"))
_FIRST_WORD: Final = re.compile(r"[\s(]*(\w+)")
_LOCKS: Final = re.compile(
    r"\bfor\s+(?:no\s+key\s+|key\s+)?(?:update|share)\b|\block\s+in\s+share\b"
    r"|\b(?:updlock|xlock|tablockx|holdlock)\b|\binto\b",
    re.IGNORECASE,
)
# Draws from a sequence, in the words of SQL's dialects; `nextval()` is a function like others.
_NEXT: Final = re.compile(r"\bnext\s+value\s+for\b|\bnextval\s+for\b|\.\s*[\"`\[]?nextval\b", re.IGNORECASE)
_CALLED: Final = re.compile(r"\b([a-z_][\w.]*)\s*\(", re.IGNORECASE)
# Words before a parenthesis that call nothing, and functions that only compute. All others may write.
# fmt: off
_PURE: Final = frozenset(
    {
        "abs", "all", "and", "any", "as", "avg", "between", "bit_and", "bit_count", "bit_length", "bit_or",
        "bit_xor", "bool_and", "bool_or", "by", "case", "cast", "ceil", "ceiling", "char", "char_length",
        "coalesce", "concat", "concat_ws", "contains", "convert", "count", "cube", "cume_dist",
        "current_date", "current_setting", "current_timestamp", "currval", "date", "date_add", "date_bin",
        "date_diff", "date_format", "date_part", "date_sub", "date_trunc", "dateadd", "datediff",
        "datefromparts", "datename", "datepart", "datetime", "day", "decimal", "dense_rank", "distinct",
        "else", "except", "exists", "extract", "filter", "first_value", "floor", "format", "from",
        "generate_series", "getdate", "greatest", "group", "group_concat", "having", "hour", "if", "ifnull",
        "in", "instr", "intersect", "interval", "isnull", "join", "json", "json_agg", "json_array",
        "json_array_elements", "json_array_elements_text", "json_array_length", "json_arrayagg",
        "json_build_array", "json_build_object", "json_contains", "json_depth", "json_each",
        "json_each_text", "json_exists", "json_extract", "json_extract_path", "json_extract_path_text",
        "json_keys", "json_length", "json_object", "json_object_agg", "json_object_keys", "json_objectagg",
        "json_populate_recordset", "json_query", "json_strip_nulls", "json_table", "json_to_recordset",
        "json_type", "json_typeof", "json_unquote", "json_valid", "json_value", "jsonb", "jsonb_agg",
        "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length", "jsonb_build_array",
        "jsonb_build_object", "jsonb_each", "jsonb_each_text", "jsonb_extract_path",
        "jsonb_extract_path_text", "jsonb_object_agg", "jsonb_object_keys", "jsonb_path_exists",
        "jsonb_path_query", "jsonb_path_query_array", "jsonb_path_query_first", "jsonb_set",
        "jsonb_strip_nulls", "jsonb_to_recordset", "jsonb_typeof", "key", "lag", "last_insert_id",
        "last_value", "lastval", "lateral", "lcase", "lead", "least", "left", "len", "length", "like",
        "limit", "ln", "log", "lower", "lpad", "ltrim", "match", "materialized", "max", "md5", "median",
        "min", "minute", "mod", "month", "not", "now", "ntile", "nullif", "numeric", "nvl", "offset", "on",
        "or", "order", "over", "partition", "percentile_cont", "percentile_disc", "plainto_tsquery",
        "position", "pow", "power", "quarter", "rand", "random", "rank", "regexp_replace", "replace",
        "reverse", "right", "rollup", "round", "row", "row_number", "row_to_json", "rpad", "rtrim",
        "scope_identity", "second", "select", "sets", "sign", "similarity", "some", "split_part", "sqrt",
        "stddev", "string_agg", "substr", "substring", "sum", "sysdate", "then", "time", "time_bucket",
        "time_bucket_gapfill", "time_format", "time_to_sec", "timediff", "timestamp", "timestampadd",
        "timestampdiff", "timezone", "to_base64", "to_char", "to_clob", "to_date", "to_days", "to_hex",
        "to_json", "to_jsonb", "to_number", "to_seconds", "to_timestamp", "to_tsquery", "to_tsvector",
        "to_unixtime", "top", "translate", "trim", "trunc", "ts_headline", "ts_rank", "ts_rank_cd", "ucase",
        "union", "unnest", "upper", "using", "values", "varchar", "variance", "version",
        "websearch_to_tsquery", "week", "when", "where", "with", "within", "year"
    }
)
# fmt: on
_PURE_STARTS: Final = ("array_", "regexp_", "st_")


def query_verb(statement: str, *, stated: bool = False) -> str:
    """Verb of a statement; empty for a text that is no SQL.

    There are six cases:

    1. A write stands somewhere in the statement, as in `WITH x AS (DELETE ...) SELECT ...`: its verb.
    2. The statement begins with another verb than `SELECT` or `WITH`: that verb.
    3. A further statement, behind a semicolon, begins with a word that may change something: `SELECT; DROP`.
    4. It locks rows or fills a table: `SELECT FOR UPDATE`.
    5. It calls a function that may do anything: `SELECT name()`.
    6. Otherwise `SELECT`.

    Args:
        stated: whether the text is known to be a statement, and no name such as `select seat`.
    """
    bare = _TEXT.sub("''", _COMMENT.sub(" ", statement))
    found = _VERB.match(bare) or (_OTHER.match(bare) if stated else None)
    if found is None:
        return ""
    verb = found[1].upper()
    if verb not in {"SELECT", "WITH"}:
        return verb
    # A name such as `select seat` or `with retries` is no statement.
    if not stated and (verb == "WITH" or found[1] != verb) and _SELECTS.search(bare) is None:
        return ""
    written = _INNER_WRITE.search(bare)
    if written is not None:
        return written[written.lastindex or 0].upper()
    return _further(bare) or _selecting(bare)


def _further(statements: str) -> str:
    """Verb of several statements of which one behind the first may change something; empty for none."""
    for statement in statements.split(";")[1:]:
        found = _FIRST_WORD.match(statement)
        word = found[1].upper() if found is not None else ""
        if word and word not in {"SELECT", "WITH"} and word not in _NO_CHANGE:
            return f"SELECT; {word}"
    if _FROM.search(statements) is None and _LOCKS.search(statements) is None:
        summed = _SUMMED_WRITE.search(statements)
        return f"SELECT; {summed[1]}" if summed is not None else ""
    return ""


def _selecting(statement: str) -> str:
    """Verb of a statement that selects: whether it locks rows or calls a function that may do anything."""
    if _LOCKS.search(statement):
        return "SELECT FOR UPDATE"
    if _NEXT.search(statement):
        return "SELECT nextval()"
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
