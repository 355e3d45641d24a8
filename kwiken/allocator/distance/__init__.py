"""Distance: calls between workloads times how far they go, and places that bring callers near callees."""
