"""
Error and residual by work
==========================

In the norm that both minimise nothing rises; the residual may.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
cg = rkhs.eigen_path(rkhs.trajectory(span, b, method="cg", steps=12))
ap = rkhs.eigen_path(rkhs.trajectory(span, b, block_size=6, steps=48))
figure = apviz.plots.rkhs.error_by_work(cg, ap, work=3)
