"""
Passes
======

What the recursion claims, as a line, and what B − KW is, as marks: poor skeletons cost passes, never digits.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder()
solver = apviz.solvers.overlapping(block_size=100, columns=apviz.solvers.Skeletons(rank=10), tol=1e-6)
apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.passes(recorder.trace)
