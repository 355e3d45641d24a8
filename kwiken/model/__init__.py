"""Model: the nouns that every other wing uses, service, profile, plan, and latencies along a DAG."""
