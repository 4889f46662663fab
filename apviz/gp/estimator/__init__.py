"""`apviz.GaussianProcess`: fitting, prediction, samples and files in a user's units."""
