"""Signs the certificate requests of pods by a policy file, and publishes the authorities that their peers trust."""
