"""Whatever dies, and whenever: the proof that a gang is whole or nothing on a real API server."""
