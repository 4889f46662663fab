"""Gaussian processes on the solvers: gradient, training, prediction, and GPyTorch models in place."""
