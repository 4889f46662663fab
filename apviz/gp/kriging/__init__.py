"""Kriging: variograms, anisotropy, drift, and a posterior with a drift."""
