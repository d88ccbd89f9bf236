"""A planner that lets two other agents work, side by side. Whoever loads it gets all three."""

from perdure.examples.analyst import analyst
from perdure.examples.planner.agent import planner
from perdure.examples.researcher import researcher

__all__ = ["analyst", "planner", "researcher"]
