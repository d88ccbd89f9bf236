"""Plumbing that workers and clients share: settings, connection, converter, dev server."""
