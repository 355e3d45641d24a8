"""Parse stage: splits the query into words."""

from __future__ import annotations

import unicodedata

from kwiken.services.search.index import text
from kwiken.services.search.stages.types import MAX_QUERY, Parsed, Request, Token

MAX_TOKENS = 16


def parse(request: Request) -> Parsed:
    """Words of the query, in their order, with what stands between them.

    Accents are taken off and wide forms made plain; all else that is no ASCII letter or digit separates
    words.
    """
    query = " ".join(request.query[:MAX_QUERY].split())
    plain = unicodedata.normalize("NFKD", query)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    tokens = [Token(word, glue) for word, glue in text.pieces(plain)]
    return Parsed(query=query, limit=request.limit, tokens=tokens[:MAX_TOKENS])
