"""Predictions of a job over executors: their report and their picture."""
