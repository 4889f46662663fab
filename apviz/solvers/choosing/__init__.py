"""Which method suits a system: predicted costs, rehearsed iterations, and the solver that chooses."""
