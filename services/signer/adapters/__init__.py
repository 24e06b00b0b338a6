"""The API server as the signer sees it."""
