"""Figures of many runs: sweeps over a setting, groups that differ only in the seed, and methods on many systems."""
