"""What a Run is: data, transitions and decisions.

Nothing in this package reads a clock, draws a random number or does I/O, and nothing in it
imports Temporal: workflow code and clients both fold the same Events with it.
"""
