"""Ledger of a gateway, and the budget that the gateways of a service share."""
