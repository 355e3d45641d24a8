"""Gateway: requests in over HTTP, control routes, and the plan in force."""
