"""Support of the matrix of faults and levers: the service, its processes, the faults, and what must hold."""
