"""Figures of blocks and rows: which block is projected onto, and where the residual is."""
