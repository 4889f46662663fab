"""Everything in the runs folder, some of it side by side."""
