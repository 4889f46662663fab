"""The page Compare: one system, many solvers, live."""
