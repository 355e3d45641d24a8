"""Replays of runs: task times by wave, list scheduling on shared slots, predictions with an interval."""
