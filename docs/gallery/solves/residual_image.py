"""
The residual, update by update
==============================

Where the residual is left after each update, with a slider and a play button.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder(rows=True, snapshots=range(12))
apviz.solve(system, apviz.AlternatingProjection(block_size=100, partition="kd-tree"), hooks=[recorder])
figure = apviz.plots.residual_image(recorder.trace)
