"""Decides where whole gangs run, from the cluster stream alone."""
