"""
Predictions with their interval
===============================

The posterior mean over one input, its 95% interval, and the data. Over two inputs, predictions are a map.
"""

import numpy as np
import xarray as xr

import apviz

data = apviz.datasets.load("china-profile", n=128, seed=0)
gp = apviz.GaussianProcess(max_steps=60).fit(data.train_x, data.train_y)
x = np.linspace(-1, 1, 400)
mean, sd = gp.predict(x[:, None], return_std=True)
found = {"mean": mean, "lower": mean - 1.96 * sd, "upper": mean + 1.96 * sd}
predictions = xr.Dataset({name: ("x", values) for name, values in found.items()}, {"x": x})
figure = apviz.plots.prediction(predictions, observed=(data.train_x[:, 0], data.train_y))
