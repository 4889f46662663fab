"""
Performance profiles
====================

The share of systems that a method solved, against its work or time relative to the best.
"""

import apviz

data, recorder = apviz.datasets.load("china", n=1000, seed=0), apviz.Recorder()
for noise in (1.0, 0.3, 0.1, 0.03):
    kernel = apviz.Matern52(lengthscale=0.2)
    system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=noise, dataset="china")
    for solver in (apviz.AlternatingProjection(block_size=100), apviz.ConjugateGradient(), apviz.Cholesky()):
        apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.performance_profiles(recorder.traces)
