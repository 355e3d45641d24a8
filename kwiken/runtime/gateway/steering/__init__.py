"""Steering: the shell of the autopilot, which looks at gateways and traces and carries decisions out."""
