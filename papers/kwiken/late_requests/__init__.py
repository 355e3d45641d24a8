"""Late requests: their timeline, and the help that they get (Kwiken sections 2.1 and 5.5)."""
