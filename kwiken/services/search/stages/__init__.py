"""Stages of the search service as plain functions and classes."""
