"""One run, update by update."""
