"""
A sweep over the noise
======================

Less noise is a larger κ, which costs CG iterations and alternating projection epochs.
"""

import apviz

data, recorder = apviz.datasets.load("china", n=1000, seed=0), apviz.Recorder()
for noise in (1.0, 0.3, 0.1, 0.03):
    kernel = apviz.Matern52(lengthscale=0.2)
    system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=noise, dataset="china")
    for solver in (apviz.AlternatingProjection(block_size=100), apviz.ConjugateGradient()):
        apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.noise_sweep(recorder.traces)
