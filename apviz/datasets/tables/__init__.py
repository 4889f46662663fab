"""A user's own tables: read, described, turned into numbers, whole or part by part."""
