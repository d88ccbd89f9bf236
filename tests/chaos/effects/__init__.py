"""Effects of tools under `kill -9` at named points of their calls.

`python -m tests.chaos.effects --kills 50` executes it: each call of a plan brings its worker to
a point and dies with it there, once. `book` is what the workers leave behind, `points` what the
calls are, `worker` and `agents` what runs them, `stage` lets it happen, `rules` judges it.
"""
