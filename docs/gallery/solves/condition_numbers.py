"""
κ and κ′
========

Both condition numbers of each run, and how well each is known.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for solver in (apviz.AlternatingProjection(block_size=50), apviz.AlternatingProjection(block_size=200)):
    apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.condition_numbers(recorder.traces)
