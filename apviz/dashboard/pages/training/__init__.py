"""The page Training: a training from its first step to its last, and the solve of any of them."""
