"""Local cluster: gateways and replicas as supervised child processes."""
