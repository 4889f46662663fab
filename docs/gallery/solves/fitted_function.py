"""
The function that is found
==========================

For data with one input: the function before and after an update, and the data.
"""

import apviz

data = apviz.datasets.load("china-profile", n=256, seed=0)
kernel = apviz.Matern52(lengthscale=0.1)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.05, dataset="china-profile")
recorder = apviz.Recorder(rows=True, snapshots=range(9), weights=True)
apviz.solve(system, apviz.AlternatingProjection(block_size=32, partition="kd-tree"), hooks=[recorder])
figure = apviz.plots.FittedFunction(recorder.trace).figure(4)
