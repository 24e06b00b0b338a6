"""The signer, without sockets."""
