"""Data model of a report: results, rows, statistics, and parts of the page."""
