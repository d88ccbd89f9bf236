"""Chaos: many Runs under a seeded plan of faults, of which only invariants are checked.

`python -m tests.chaos` executes it. `plan` says what is to happen, `stage` lets it happen,
`evidence` is what was seen, `invariants` judges that, `report` prints it.
"""
