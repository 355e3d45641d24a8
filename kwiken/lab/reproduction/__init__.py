"""Reproductions: tables and figures of published sources, computed anew beside the published values."""
