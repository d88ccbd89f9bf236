"""A researcher who answers from a folder of documents, and says where it is written."""

from perdure.examples.researcher.agent import researcher

__all__ = ["researcher"]
