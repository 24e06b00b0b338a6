"""The phalanx command, without sockets."""
