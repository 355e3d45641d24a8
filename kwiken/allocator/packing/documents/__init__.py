"""Documents that packing reads: clusters of kubectl, placements, and tables of usage."""
