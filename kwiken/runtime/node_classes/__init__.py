"""Node classes on one machine: processes run as if on a node of a given speed and number of cores."""
