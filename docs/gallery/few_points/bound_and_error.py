"""
What is promised, and what happens
==================================

Theorem 1 beside the error, for two partitions.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
partitions = ("sequential", "shuffled")
solves = {name: rkhs.compare_with_bound(span, b, block_size=6, partition=name, epochs=12) for name in partitions}
figure = apviz.plots.rkhs.bound_and_error(solves, share=0.01)
