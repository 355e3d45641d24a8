"""Apportionment: division of one budget over stages for an objective, with insurance for later requests."""
