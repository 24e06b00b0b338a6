"""The phalanx command."""
