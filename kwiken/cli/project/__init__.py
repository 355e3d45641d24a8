"""Verbs for a builder's first project."""
