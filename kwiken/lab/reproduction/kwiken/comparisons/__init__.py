"""SumVar beside other ways to share a budget among stages: Figure 5.3, sections 5.3.1 and 5.4.2."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.comparisons.chunks import chunks_part as chunks_part
from kwiken.lab.reproduction.kwiken.comparisons.random_search import search_part as search_part
from kwiken.lab.reproduction.kwiken.comparisons.scatter import scatter_part as scatter_part
