"""The phalanx command against real servers."""
