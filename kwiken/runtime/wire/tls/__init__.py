"""TLS: certificates from files, followed as the files change, for servers, clients and gateways' peers."""
