"""The placer's connections to the bus and its gRPC interface."""
