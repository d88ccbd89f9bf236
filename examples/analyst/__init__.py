"""A data analyst on a SQLite database."""

from perdure.examples.analyst.agent import analyst

__all__ = ["analyst"]
