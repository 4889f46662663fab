"""Settings of a visitor: models with their widgets, and plain values for a job."""
