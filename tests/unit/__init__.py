"""Core and handlers, without sockets."""
