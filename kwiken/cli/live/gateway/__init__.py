"""Client of a running gateway for the verbs: its control routes, its status, and an autopilot beside it."""
