"""Figures of models: predictions, training, kernels."""
