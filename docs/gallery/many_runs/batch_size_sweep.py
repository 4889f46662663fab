"""
A sweep over block sizes
========================

Epochs and seconds to the tolerance, κ′ and the memory of the factors, against b.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
for size in (25, 50, 100, 200, 400):
    apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
figure = apviz.plots.batch_size_sweep(recorder.traces)
