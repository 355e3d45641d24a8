"""Diagnosis: which stages and replicas make slow requests slow, and which requests pay for a plan."""
