"""What has been published: the paper's printed numbers, and its authors' trainings step by step."""
