"""The pages that sweep one setting: Batch size, and Conditioning."""
