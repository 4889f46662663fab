"""Diagnosers, a file each: `python -m benchmarks.causes score benchmarks/causes/diagnosers/by_apviz.py`."""
