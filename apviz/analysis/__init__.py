"""What is computed from traces: errors and theory, sweeps, diagnoses."""
