"""Messages as they were once published: what a later release must still understand."""
