"""Support for tests of packing: clusters, usage, and what a kube-apiserver 1.34.4 answered."""
