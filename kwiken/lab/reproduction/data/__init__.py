"""Published systems of storage and traffic, computed anew; one folder each."""
