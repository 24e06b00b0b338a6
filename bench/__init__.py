"""Benchmarks of Phalanx against its goals."""
