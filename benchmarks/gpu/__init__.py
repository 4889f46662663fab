"""One run on a GPU within minutes: are the numbers right, do the tests pass, how fast is it.

    python -m benchmarks.gpu --minutes 8 [--stages a,b] [--device cuda] [--out DIR] [--tiny]

Every stage is a process of its own, is killed at its budget, and writes its JSON after every entry.
"""
