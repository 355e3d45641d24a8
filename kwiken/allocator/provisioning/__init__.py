"""Provisioning: what to reserve, what to rent by the hour or on spot, and how long an idle node is kept."""
