"""What an experiment is set up with: data sets and their stand-ins, the paper's methods at any n."""
