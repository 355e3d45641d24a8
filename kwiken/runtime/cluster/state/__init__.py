"""State of a running cluster: its document, its files in a folder, and the stop that reads them."""
