"""How an experiment measures: one solve, one training, one test, one count of flops."""
