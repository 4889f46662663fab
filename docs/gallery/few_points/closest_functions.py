"""
The functions that meet at the smallest angle
=============================================

One of each span; their angle is Friedrichs'.
"""

import apviz
from apviz import rkhs

blocks = rkhs.two_blocks(5, 0.1)
span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
pair = rkhs.principal_pair(span, blocks.first, blocks.second)
figure = apviz.plots.rkhs.closest_functions(span, blocks, pair, span.angle(*pair))
