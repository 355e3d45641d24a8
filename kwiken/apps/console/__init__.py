"""Console: output for users, the words of notes, and the standard streams and signals of the process."""
