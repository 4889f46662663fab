"""One system, many solvers, live."""
