"""Results of Tarcil: guarantees of samples, schedulers of short tasks, large clusters."""
