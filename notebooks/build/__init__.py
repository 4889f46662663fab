"""Runs the notebooks and writes them as pages that need neither Python nor a network: `make notebooks`."""
