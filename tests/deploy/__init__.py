"""What `deploy/` ships, rendered by the real helm and judged by the real API server."""
