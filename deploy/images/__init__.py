"""The images of the services: `make images`, or `python -m deploy.images --help`."""
