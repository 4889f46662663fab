"""What figures are made of: words, colours, axes, panels, curves, thinning."""
