"""Event logs and runs of batch jobs for tests."""
