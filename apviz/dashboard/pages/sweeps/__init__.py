"""The pages that sweep one setting."""
