"""`kwiken probe`: its two commands, and which sources of contention a stage is probed at."""
