"""The page Runs: everything in the folder of runs, some of it side by side."""
