"""The folder of runs: what is in it, by name, and the tables of it."""
