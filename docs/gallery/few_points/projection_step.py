"""
A projection as arrows
======================

The functions k(xᵢ, ·) as arrows at their true angles, and one projection onto the span of two of them; turn it.
"""

import apviz
from apviz import rkhs

span = rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.4), noise=0.1)
found = rkhs.trajectory_on(span, [1.0, -0.5, 0.7], [(0, 1), (2,)], steps=4)
figure = apviz.plots.rkhs.projection_step(rkhs.step_geometry(found, 2))
