"""The sandbox over HTTP: faults, watches, control paths, and as a process."""
