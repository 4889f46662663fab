"""
K-norm error and its bounds
===========================

The error that theory speaks of, as a band, and what Theorem 1 and the bound of CG promise.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for solver in (apviz.AlternatingProjection(block_size=100), apviz.ConjugateGradient()):
    apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.k_norm_error(recorder.traces)
