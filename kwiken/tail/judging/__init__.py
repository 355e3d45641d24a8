"""Judging: a plan, an even spread and hindsight, judged on later requests by percentiles and spend."""
