"""The MCP client of a worker. Imported only where an agent has servers: the SDK takes a second."""
