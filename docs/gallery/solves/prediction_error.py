"""
Error of predictions and residual
=================================

A residual of 0.01 can mean an error of half a posterior standard deviation. From the line on, more solving changes
predictions by less than 0.05 of it.
"""

import apviz

data = apviz.datasets.load("china", n=2000, seed=0)
h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=0.01)
posterior = apviz.Posterior(data.train_x, data.train_y, h)
hook, recorder = apviz.PredictionErrorHook(posterior, data.test_x), apviz.Recorder()
for solver in (apviz.solvers.overlapping(tol=1e-5), apviz.ConjugateGradient(tol=1e-5, max_epochs=1000)):
    apviz.solve(posterior.system, solver, hooks=[hook, recorder])
figure = apviz.plots.prediction_error(recorder.traces)
