"""Charts of a report as inline SVG."""
