"""Published systems of batch jobs, computed anew; one folder each."""
