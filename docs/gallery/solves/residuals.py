"""
Residuals
=========

Residual against work, epochs or seconds, with the tolerance; the cross-over is what to look for.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for solver in (apviz.AlternatingProjection(block_size=100), apviz.ConjugateGradient(), apviz.solvers.overlapping()):
    apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.residuals(recorder.traces)
