"""HTTP servers: the acceptor, aiohttp for gateways, and a small strict server for replicas."""
