"""Wire: bytes between processes; transports over HTTP and gRPC, the HTTP server, foreign services."""
