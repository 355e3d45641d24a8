"""Accuracy of the load generator, and the server of known behaviour that it is measured with."""
