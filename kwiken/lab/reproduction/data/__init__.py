"""Published systems of data and traffic, computed anew."""
