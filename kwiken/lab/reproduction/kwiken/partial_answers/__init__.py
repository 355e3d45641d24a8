"""Partial answers: Table 5.2, Figures 5.4 and 5.6, and the rules beside the source's."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.partial_answers.incomplete import parts as parts
