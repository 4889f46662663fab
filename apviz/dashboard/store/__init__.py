"""Runs on disk: listed, opened, renamed, deleted, imported and exported."""
