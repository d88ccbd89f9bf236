"""Events and deltas as streams: Server-Sent Events, AG-UI, plain text."""
