"""The rows of the contract, one module per theme."""
