"""Agents as a user writes them."""
