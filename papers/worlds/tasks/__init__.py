"""Tasks of milliseconds on units of one core: kinds, contention, and schedulers whose decisions take time."""
