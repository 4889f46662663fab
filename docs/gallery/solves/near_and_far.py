"""
Near and far
============

A kernel as a short-range part and a part of few frequencies: how products with millions of rows take seconds.
"""

import apviz
from apviz.operators import FourierOperator

data = apviz.datasets.load("china", n=5000, seed=0)
kernel = apviz.Matern32(lengthscale=0.1)
k = FourierOperator(data.train_x.double(), kernel, noise=0.1, error=1e-5)
figure = apviz.plots.near_and_far(k.splits[0])
