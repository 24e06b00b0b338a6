"""The tests of Phalanx."""
