"""Results of a load run: outcomes of requests, their records, statistics, and what limited the run."""
