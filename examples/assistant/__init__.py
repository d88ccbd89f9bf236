"""An assistant that calculates, tells the time and searches files."""
