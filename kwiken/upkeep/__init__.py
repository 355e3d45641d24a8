"""Upkeep of running clusters: measures, lets an adaptation decide, and carries out what it decides."""
