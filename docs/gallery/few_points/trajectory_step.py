"""
One update
==========

Function and data above, residual below; the block that was solved is lit.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
figure = apviz.plots.rkhs.trajectory_step(rkhs.trajectory(span, b, blocks=4, steps=5), 2)
