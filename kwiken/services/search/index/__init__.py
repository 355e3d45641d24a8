"""Search index: corpus, construction, storage and loading."""
