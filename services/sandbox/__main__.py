"""`python -m services.sandbox`: a Kubernetes API on one port, for tests, demos and first steps."""

from services.sandbox.command import main

main()
