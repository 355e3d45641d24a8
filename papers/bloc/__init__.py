"""BLOC: data sets packed on few nodes by bandwidth, interference and the load of the day."""
