"""Measure how fast the dashboard is in a browser."""
