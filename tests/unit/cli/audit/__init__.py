"""Tests of the audit on evidence that is made by hand."""
