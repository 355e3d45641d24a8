"""Open-loop load under Locust's own command: options, division over processes, counts and the common end."""
