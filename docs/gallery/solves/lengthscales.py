"""
Lengthscales by step
====================

One line an input: the longer its lengthscale, the less it matters.
"""

import apviz

data = apviz.datasets.load("diabetes", seed=0)
settings = apviz.TrainingSettings(solver=apviz.AlternatingProjection(block_size=100), steps=25)
training = apviz.Training(data.train_x, data.train_y, settings)
training.run()
figure = apviz.plots.lengthscales(training.trace)
