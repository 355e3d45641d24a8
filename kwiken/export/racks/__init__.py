"""Plans of racks as settings of engines of batch jobs."""
