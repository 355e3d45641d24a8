"""Lab: simulated clusters, and published tables and figures computed anew."""
