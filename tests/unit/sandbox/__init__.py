"""Unit tests of the sandbox: rules and controllers over a store, without HTTP."""
