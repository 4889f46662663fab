"""The page Runs: all runs of the folder, and the chosen ones side by side."""
