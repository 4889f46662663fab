"""The paper's figures and tables by name, each computed afresh beside the numbers the paper has."""

from apviz.experiments.base import Experiment, Options, Row, Table
from apviz.experiments.rules import Rules
from apviz.experiments.running import run

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (Rules(),)}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Row", "Table", "run"]
