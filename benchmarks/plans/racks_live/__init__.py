"""Batch jobs beside a service: racks with limited links, a plan, and a rack that is lost."""
