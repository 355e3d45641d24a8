"""Trace trees: cleaned spans, requests, request classes and critical paths."""
