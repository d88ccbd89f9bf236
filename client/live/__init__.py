"""Runs as they happen: Events, and between them what models and tools say before a Step ends."""
