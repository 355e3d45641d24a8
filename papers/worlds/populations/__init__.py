"""Populations: synthetic services and platforms with the statistics that published sources report."""
