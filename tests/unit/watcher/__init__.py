"""The watcher's decisions and its publisher, without sockets."""
