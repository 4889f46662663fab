"""Models of tables, for the command line and the dashboard: fitted, described, and predicted in slices."""
