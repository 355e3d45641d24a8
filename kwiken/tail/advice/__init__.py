"""Advice for the owner of a slow service: cause of its tail, gain of a budget, settings to change."""
