"""Base of the runtime: errors, clock, timers, tasks, log events."""
