"""Plan documents: policies and budgets of a service's stages, with the expected latency and spend."""
