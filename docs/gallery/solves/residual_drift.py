"""
Drift of the residual
=====================

How far the residual that a recursion carries along is from B − KW, in float32.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for solver in (apviz.AlternatingProjection(block_size=100, check_every=1), apviz.ConjugateGradient()):
    apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.residual_drift(recorder.traces)
