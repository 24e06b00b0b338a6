"""Faults from the field, as inputs with right answers."""
