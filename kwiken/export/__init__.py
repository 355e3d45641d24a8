"""Export: plans as settings of gRPC, Envoy and Istio; placements as settings of Compose and Kubernetes."""
