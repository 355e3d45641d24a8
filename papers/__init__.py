"""Published systems as published: their worlds, and their tables and figures computed anew."""
