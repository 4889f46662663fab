"""The marginal likelihood, its gradient, and training by them."""
