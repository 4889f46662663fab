"""
Test error and residual
==============================

From the star on, solving further no longer changes what is predicted.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
prediction = apviz.PredictionHook(data.test_x, data.test_y)
recorder = apviz.Recorder()
for solver in (apviz.AlternatingProjection(block_size=100), apviz.ConjugateGradient()):
    apviz.solve(system, solver, hooks=[prediction, recorder])
figure = apviz.plots.test_rmse(recorder.traces)
