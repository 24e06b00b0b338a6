"""The binder without sockets."""
