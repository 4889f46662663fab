"""
Where the residual is left
==========================

The residual's norm on every block, after every epoch.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
apviz.solve(system, apviz.AlternatingProjection(block_size=100, rule="cyclic", partition="kd-tree"), hooks=[recorder])
figure = apviz.plots.block_norms(recorder.trace)
