"""Storage model: states, transitions, classes, gaps; training and generation."""
