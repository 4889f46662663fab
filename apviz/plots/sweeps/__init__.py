"""Figures of many runs: sweeps over a setting, groups that differ in the seed alone, and methods over many systems."""
