"""Every way in: the Python client and the command line."""
