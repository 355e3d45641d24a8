"""Profile fitting from traces of services on this runtime or of any other service."""
