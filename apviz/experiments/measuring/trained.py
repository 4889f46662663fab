"""Hyperparameters for solves: those of the card, or of a training that the experiment does first."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from apviz import datasets
from apviz.experiments.base import Cell, Options, Row
from apviz.experiments.published import paper
from apviz.experiments.setting.data import Source, load, name_of
from apviz.experiments.setting.methods import training_solver
from apviz.gp.training import Training, TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.tracing import TrainingTrace, open_trace

#: Adam steps of the paper (section 5.1), and those of its two largest sets
STEPS = 50
MORE_STEPS = {"houseelectric": 100, "gassensors": 100}


def steps_of(name: str) -> int:
    """The Adam steps that the paper takes on a data set."""
    return MORE_STEPS.get(name, STEPS)


def train(source: Source, settings: TrainingSettings, options: Options, trace: Path) -> Training:
    """Trains with a trace at a path; a training that was cut there goes on."""
    training = Training(
        source.data.train_x, source.data.train_y, settings, path=trace, device=options.device, dataset=source.name
    )
    training.run(options.hooks)
    return training


def training_cells(pair: tuple[str, str], seed: int, options: Options) -> list[Cell]:
    """A cell that trains by alternating projection, where the card has no hyperparameters; else none."""
    name = name_of(*pair, options)
    if datasets.card(name).hyperparameters is not None:
        return []
    return [Cell(_key(name, seed), partial(_train, pair, seed, options))]


def hyperparameters(name: str, seed: int, folder: Path) -> Hyperparameters:
    """The card's, or those that the training cell left in the experiment's folder."""
    card = datasets.card(name).hyperparameters
    if card is not None:
        return card
    trained = open_trace(folder / f"{_key(name, seed)}.zarr")
    assert isinstance(trained, TrainingTrace)
    return trained.hyperparameters


def _key(name: str, seed: int) -> str:
    return f"{name}-training-seed{seed}"


def _train(pair: tuple[str, str], seed: int, options: Options, trace: Path) -> Row:
    source = load(*pair, options, seed)
    settings = TrainingSettings(solver=training_solver(paper.AP, source), steps=steps_of(source.name), seed=seed)
    noise = train(source, settings, options, trace).hyperparameters.noise
    return {"dataset": source.name, "data": source.heading, "seed": seed, "noise": noise}
