"""Alternating projection in sweeps over colours, blocks that are far apart."""
