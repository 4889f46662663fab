"""`python -m apviz.cli`."""

from apviz.cli import app

app(prog_name="apviz")
