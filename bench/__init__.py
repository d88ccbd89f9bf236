"""The benchmark: what a Run costs over a bare Temporal workflow of the same shape.

`python -m bench` starts everything it needs, prints one table and leaves nothing behind.
"""
