"""The ten experiments; each computes one figure or table of the paper."""
