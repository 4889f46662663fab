"""
Two norms of one residual
=========================

The norm in H never rises; the Euclidean one may.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
figure = apviz.plots.two_norms(rkhs.trajectory(span, b, blocks=4, steps=16), 2)
