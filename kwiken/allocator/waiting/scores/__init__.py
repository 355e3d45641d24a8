"""Scores: quality that a job needs and that a node offers, from predictions and the ledger."""
