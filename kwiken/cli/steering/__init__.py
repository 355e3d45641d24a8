"""Verbs that steer a running service: its plan (`kwiken autopilot`) and its placement (`kwiken upkeep`)."""
