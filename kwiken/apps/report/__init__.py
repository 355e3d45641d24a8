"""Report: one self-contained page of what was learned, planned and measured."""
