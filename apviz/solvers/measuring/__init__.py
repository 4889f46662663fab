"""What a run measures: seconds, decreases of h, B − KW and its certificate, and when a pass is due."""
