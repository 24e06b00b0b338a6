"""Selectors of devices: what the API server accepts, and what we compile."""
