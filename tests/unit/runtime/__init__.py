"""What the shared runtime decides, without sockets."""
