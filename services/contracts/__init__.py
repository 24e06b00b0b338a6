"""What services say to each other: messages, subjects, headers, codecs."""
