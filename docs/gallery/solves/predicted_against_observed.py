"""
Predicted against observed
==========================

Test rows that the model had not seen: each prediction with its 95% interval, which should reach the diagonal.
"""

import apviz

data = apviz.datasets.load("china", n=1000, seed=0).with_test_rows(300)
gp = apviz.GaussianProcess().fit(data.train_x, data.train_y)
mean, sd = gp.predict(data.test_x, return_std=True, include_noise=True)
figure = apviz.plots.predicted_against_observed(data.test_y, mean, sd, name="brightness")
