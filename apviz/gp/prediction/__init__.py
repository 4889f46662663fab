"""The posterior: means, variances, samples, and how far they are from the exact GP."""
