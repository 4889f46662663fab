"""The pages that sweep one setting: Block size and Noise."""
