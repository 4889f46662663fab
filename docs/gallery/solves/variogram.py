"""
A variogram
===========

Half the mean squared difference of targets by distance, and the variogram of a model that was fitted by its likelihood.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0)
gp = apviz.GaussianProcess("matern12", ard=False, scale=False).fit(data.train_x, data.train_y)
empirical = apviz.gp.empirical_variogram(data.train_x, data.train_y, max_pairs=100_000)
model = apviz.Variogram.of(gp.hyperparameters_, convention="effective")
figure = apviz.plots.variogram(empirical, model)
