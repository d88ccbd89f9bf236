"""A scripted model server over real HTTP, and the rules that its requests must obey.

Start with `tests.harness.scripted_openai`. Nothing is imported here, so that that module can
also run as a program of its own.
"""
