"""Autopilot: proposes plans, tries them on a share of the requests, and keeps or takes them back. Pure."""
