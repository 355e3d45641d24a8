"""Results of ARQ: lines by quality of node, changes of line, and what they keep of quality of service."""
