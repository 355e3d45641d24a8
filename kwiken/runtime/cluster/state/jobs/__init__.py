"""Files of batch jobs in a folder of state: orders, claims, results, the journal, and the queue as shown."""
