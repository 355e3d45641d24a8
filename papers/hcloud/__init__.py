"""HCloud: strategies of provisioning, mapping policies and costs, on a simulated cloud and load curves."""
