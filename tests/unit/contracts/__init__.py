"""Unit tests of the contracts: codecs, subjects, CloudEvents."""
