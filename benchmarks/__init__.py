"""Benchmarks: `make bench`, or `python -m benchmarks PART ...`; results go to `benchmarks/results/PART.json`."""
