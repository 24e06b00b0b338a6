"""The autoscaler's connections."""
