"""Methods of other papers, to compare with: one file each, on the iterates of `iterates.py`."""
