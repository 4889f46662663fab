"""The ten experiments, one figure or table of the paper each."""
