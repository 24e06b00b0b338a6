"""One adapter against a real peer."""
