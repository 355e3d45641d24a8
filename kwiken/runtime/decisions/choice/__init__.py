"""Replica choice of one stage: the rule, what is known of each replica, and ejection of those that fail."""
