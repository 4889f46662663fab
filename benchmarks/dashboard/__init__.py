"""How fast the dashboard is, in a browser."""
