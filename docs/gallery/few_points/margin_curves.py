"""
What a margin does
==================

Solves of the photograph that differ in the overlap alone.
"""

import apviz

data = apviz.datasets.load("china", n=1500)  # every twelfth row and column
system = apviz.KernelSystem(data.train_x, data.train_y, apviz.Matern52(lengthscale=0.1), noise=0.05, dataset="china")
recorder, margins = apviz.Recorder(), (0.0, 0.5, 1.0)
for margin in margins:
    solver = apviz.AlternatingProjection(block_size=108, partition="kd-tree", overlap=margin)
    apviz.solve(system, solver, hooks=[recorder])
traces = dict(zip(margins, recorder.traces, strict=True))
figure = apviz.plots.rkhs.margin_curves(traces, shown=0.5, update=12)
