"""
Runs that differ in the seed alone
==================================

The median as a line, and a band of quartiles: one curve a method, whatever the number of seeds.
"""

import apviz

recorder = apviz.Recorder()
for seed in range(5):
    data = apviz.datasets.load("china", n=1000, seed=seed)
    kernel = apviz.Matern52(lengthscale=0.2)
    system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, seed=seed, dataset="china")
    for solver in (apviz.AlternatingProjection(block_size=100, rule="random"), apviz.ConjugateGradient()):
        apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.grouped_curves(recorder.traces)
