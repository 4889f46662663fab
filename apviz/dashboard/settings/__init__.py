"""Settings: what a visitor chooses, as models with their widgets and as plain values for a job."""
