"""
A training
==========

The noise σ² by step, and what the solve of the step took.
"""

import apviz

data = apviz.datasets.load("diabetes", seed=0)
settings = apviz.TrainingSettings(solver=apviz.AlternatingProjection(block_size=100), steps=25)
training = apviz.Training(data.train_x, data.train_y, settings)
training.run()
figure = apviz.plots.training(training.trace)
