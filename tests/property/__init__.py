"""Invariants under generated input."""
