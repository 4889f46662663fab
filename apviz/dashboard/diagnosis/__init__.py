"""What limited a run, and the run again with the one setting changed."""
