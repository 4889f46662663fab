"""A leaderboard of solvers of K W = B: RULES.md has the rules, and an outside solver joins in a file of its own."""
