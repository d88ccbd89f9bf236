"""What users write with: agents, tools, and the registry that a worker is started with."""
