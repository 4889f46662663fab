"""Figures and tables of the paper by name, each recomputed and shown next to the paper's numbers."""

from apviz.experiments.base import Experiment, Options, Row, Table
from apviz.experiments.catalogue.batch_size import BatchSize
from apviz.experiments.catalogue.conditioning import Conditioning
from apviz.experiments.catalogue.convergence import Convergence
from apviz.experiments.catalogue.flops import Flops
from apviz.experiments.catalogue.lanczos_rank import LanczosRank
from apviz.experiments.catalogue.noise_floor import NoiseFloor
from apviz.experiments.catalogue.predictive_mean import PredictiveMean
from apviz.experiments.catalogue.rules import Rules
from apviz.experiments.catalogue.test_time import TestTime
from apviz.experiments.catalogue.training import TrainingTable
from apviz.experiments.running import run

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Convergence(), Rules(), BatchSize(), Conditioning(), TestTime(), Flops(), TrainingTable(), PredictiveMean(),
        NoiseFloor(), LanczosRank(),
    )
}  # fmt: skip

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Row", "Table", "run"]
