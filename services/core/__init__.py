"""Pure decisions on plain data. No I/O, clock, randomness or logging."""
