"""Docs, and what makes their generated parts."""
