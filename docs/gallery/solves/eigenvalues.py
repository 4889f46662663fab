"""
Eigenvalues, with and without a preconditioner
==============================================

What CG has to deal with: the spectrum of K, and of P⁻¹K.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
kernel = apviz.Matern52(lengthscale=0.2)
system = apviz.KernelSystem(data.train_x, data.train_y, kernel, noise=0.1, dataset="china")
recorder = apviz.Recorder(eigenvalues=True)
for solver in (apviz.ConjugateGradient(), apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50))):
    apviz.solve(system, solver, hooks=[recorder])
figure = apviz.plots.eigenvalues(recorder.traces)
