"""The signer on a real API server."""
