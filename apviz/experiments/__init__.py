"""The paper's figures and tables by name, each computed afresh beside the numbers the paper has."""

from apviz.experiments.base import Experiment, Options, Row, Table
from apviz.experiments.batch_size import BatchSize
from apviz.experiments.conditioning import Conditioning
from apviz.experiments.convergence import Convergence
from apviz.experiments.flops import Flops
from apviz.experiments.lanczos_rank import LanczosRank
from apviz.experiments.noise_floor import NoiseFloor
from apviz.experiments.predictive_mean import PredictiveMean
from apviz.experiments.rules import Rules
from apviz.experiments.running import run
from apviz.experiments.test_time import TestTime
from apviz.experiments.training import TrainingTable

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Convergence(),
        Rules(),
        BatchSize(),
        Conditioning(),
        TestTime(),
        Flops(),
        TrainingTable(),
        PredictiveMean(),
        NoiseFloor(),
        LanczosRank(),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Row", "Table", "run"]
