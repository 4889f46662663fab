"""
The residual as a picture
=========================

Five updates into a solve with blocks of neighbours: zero on those just solved, disturbed at their borders.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder(rows=True, snapshots=range(8))
apviz.solve(system, apviz.AlternatingProjection(block_size=100, partition="kd-tree"), hooks=[recorder])
figure = apviz.plots.ResidualMap(recorder.trace).figure(5)
