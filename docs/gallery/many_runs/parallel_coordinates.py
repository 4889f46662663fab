"""
Settings and what became of them
================================

A line a run, through its settings to its work, time and error; axes can be moved, and ranges picked.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for size in (100, 200):
    for rule in ("gauss-southwell", "cyclic"):
        apviz.solve(system, apviz.AlternatingProjection(block_size=size, rule=rule), hooks=[recorder])
figure = apviz.plots.parallel_coordinates(recorder.traces)
