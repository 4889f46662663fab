"""
λ′max grows with the blocks
===========================

From one point to all of them, for two partitions.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("even", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
sizes, every = (1, 2, 3, 4, 6, 8, 12, 24), rkhs.block_spectrum(span, [range(24)])
largest = {name: rkhs.lambda_max_by_size(span, sizes, name) for name in ("sequential", "shuffled")}
figure = apviz.plots.rkhs.largest_block_eigenvalue(span, every.eigenvalues, sizes, largest, block_size=6)
