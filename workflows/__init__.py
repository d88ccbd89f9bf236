"""In which order things happen: deterministic, decides only from what is recorded."""
