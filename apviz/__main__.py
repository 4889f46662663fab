"""`python -m apviz`, and `torchrun -m apviz`."""

from apviz.cli import app

app(prog_name="apviz")
