"""The autoscaler on a bus in memory."""
