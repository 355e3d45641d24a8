"""Published systems for batch jobs, computed anew."""
