"""Open-loop load against a gateway."""
