"""A leaderboard of solvers of K W = B: the rules are in RULES.md, an outsider joins in a file of its own."""
