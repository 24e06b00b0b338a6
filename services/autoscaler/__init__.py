"""Wakes gangs from zero by external queue metrics."""
