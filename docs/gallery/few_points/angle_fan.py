"""
Principal angles
================

Angles between the spans of two blocks; the smallest, Friedrichs', decides how fast they are solved in turn.
"""

import apviz
from apviz import rkhs

blocks = rkhs.two_blocks(5, 0.1)
span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
angles = rkhs.principal_angles(span, blocks.first, blocks.second)
figure = apviz.plots.rkhs.angle_fan(span, angles, shared=0)
