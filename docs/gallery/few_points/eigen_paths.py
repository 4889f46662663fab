"""
Paths of CG and of projections
==============================

The error in the coordinates of two eigenvectors; the goal is the origin.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
cg = rkhs.eigen_path(rkhs.trajectory(span, b, method="cg", steps=12))
ap = rkhs.eigen_path(rkhs.trajectory(span, b, block_size=6, steps=48))
figure = apviz.plots.rkhs.eigen_paths(cg, ap, pair=(0, 5), work=3)
