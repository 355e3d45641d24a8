"""Base: errors, printable text, arrays, optional extras, strict parsing, and this machine's resources."""
