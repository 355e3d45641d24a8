"""Published schedulers and allocators of clusters, computed anew; one folder each."""
