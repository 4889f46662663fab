"""
What a margin does
==================

Solves of the photograph that differ in the overlap alone.
"""

import apviz
from apviz import rkhs

photos = {
    margin: rkhs.photograph(1944, block_size=108, partition="kd-tree", overlap=margin) for margin in (0.0, 0.5, 1.0)
}
figure = apviz.plots.rkhs.margin_curves(photos, shown=0.5, update=12)
