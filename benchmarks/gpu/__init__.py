"""Check in minutes on a GPU that the numbers are right, that the tests pass, and how fast apviz is.

    python -m benchmarks.gpu --minutes 8 [--stages a,b] [--device cuda] [--out DIR] [--tiny]

Every stage is a process of its own, is killed at its budget, and writes its JSON after every entry.
"""
