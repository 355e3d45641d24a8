"""Results of iBench: linear pressure, knees of workloads, and scheduling by contention."""
