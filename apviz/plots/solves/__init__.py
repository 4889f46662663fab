"""Figures of one solve, or several: curves over work, epochs or seconds."""
