"""Replica server: one process that serves all shards of one stage."""
