"""One fake for each port, held to the same contract suite as the real adapter."""
