"""Verbs that run services: serve, stage, up, down, status, load, demo."""
