"""
A photograph, one update
========================

Left the residual, with the block and its margin; right the picture so far.
"""

import apviz

data = apviz.datasets.load("china", n=1500)  # every twelfth row and column
system = apviz.KernelSystem(data.train_x, data.train_y, apviz.Matern52(lengthscale=0.1), noise=0.05, dataset="china")
recorder = apviz.Recorder(rows=True, snapshots=range(8), weights=True)
solver = apviz.AlternatingProjection(block_size=108, partition="kd-tree", overlap=0.5)
apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.rkhs.photograph_step(recorder.trace, update=6)
