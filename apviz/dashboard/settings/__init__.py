"""What a visitor chooses: models whose settings go into the address, the plain values of them, and their widgets."""
