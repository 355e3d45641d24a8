"""Replicas of a local cluster on nodes: options of `kwiken up`, and the files behind them."""
