"""One suite for the bus and its fake: what services rely on."""
