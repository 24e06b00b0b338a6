"""The shared runtime against real sockets, processes and peers."""
