"""Everything that is checked about Phalanx, as one table of suites: `python -m tests.suites [names…]`."""
