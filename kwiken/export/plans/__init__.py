"""Plans as settings of gRPC, Envoy and Istio, with notes on what these cannot express."""
