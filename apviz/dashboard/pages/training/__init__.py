"""The page Training: all steps of a training, and the solve of each step."""
