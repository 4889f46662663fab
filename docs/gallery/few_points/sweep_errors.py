"""
Two blocks in turn
==================

The error after every sweep over both, beside the bound by the angle.
"""

import apviz
from apviz import rkhs

blocks = rkhs.two_blocks(5, 0.1)
span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
found = rkhs.trajectory_on(span, blocks.x**2, (blocks.first, blocks.second), rule="cyclic", steps=16)
figure = apviz.plots.rkhs.sweep_errors(found, rkhs.sweeps_of(found))
