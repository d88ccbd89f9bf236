"""What people are to decide: shown, and decided, on the command line."""
