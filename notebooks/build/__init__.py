"""Run the notebooks and write them as pages that need neither Python nor a network: `make notebooks`."""
