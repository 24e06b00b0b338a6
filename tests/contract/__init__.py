"""What fakes and real parts must do alike, and stored bytes that must still decode."""
