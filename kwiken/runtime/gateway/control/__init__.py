"""Control of a gateway: plans in force and on disk, replicas and their addresses, metrics of the service."""
