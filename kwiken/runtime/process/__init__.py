"""Server processes: specification, start, signals, span export, and orderly end."""
