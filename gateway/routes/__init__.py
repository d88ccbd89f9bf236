"""What can be called over HTTP, by subject."""
