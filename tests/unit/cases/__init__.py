"""Tests of the interpreters of the field cases."""
