"""
A photograph, one update
========================

Left the residual, with the block and its margin; right the picture so far.
"""

import apviz
from apviz import rkhs

photo = rkhs.photograph(1944, block_size=108, partition="kd-tree", overlap=0.5, max_epochs=1)
figure = apviz.plots.rkhs.photograph_step(photo, update=6)
