"""What touches the world: the model, the tools."""
