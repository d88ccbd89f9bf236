"""An operations agent: it looks by itself, and asks before it does what may hurt."""

from perdure.examples.operations.agent import operations

__all__ = ["operations"]
