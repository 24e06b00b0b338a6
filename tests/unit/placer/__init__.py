"""The placer on a bus in memory."""
