"""Table 4: a noise above 0.1 costs accuracy, and alternating projection does not need it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, cell_key
from apviz.experiments.measuring import machines, scaling, traces_of, train_and_test, training_chart, variances
from apviz.experiments.published import (
    AP,
    CG,
    NOISE_FLOOR,
    NOISE_FLOOR_DATASET,
    Trained,
    comparison_cells,
    comparison_headings,
    footnotes,
)
from apviz.experiments.sources import OVERLAP, load, name_of, pairs

#: Data sets whose trained noise is far below 0.1: house electric, and the set that replaces it.
PAIR: Final = (NOISE_FLOOR_DATASET, "sgemm")
TRAINED: Final = ((CG, 0.1), (AP, 0.1), (AP, 1e-4), (OVERLAP, 1e-4))
COLUMNS: Final = ("rmse", "nll", "solves", "time")


class NoiseFloor(Experiment):
    """House electric with σ² ≥ 0.1, as earlier work needed, and with GPyTorch's σ² ≥ 1e-4 (Matérn-5/2, appendix)."""

    name = "noise-floor"
    title = "Training with a large and with a small noise floor"
    source = "Table 4"

    def cells(self, options: Options) -> list[Cell]:
        pairs([PAIR], options)
        name = name_of(*PAIR, options)
        return [
            Cell(cell_key(name, method, f"floor{floor:g}", seed=seed), partial(_cell, method, floor, seed, options))
            for seed in range(options.seeds)
            for method, floor in TRAINED
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        body, all_rows = [], list(rows.values())
        for method, floor in TRAINED:
            done = [row for row in all_rows if (row["method"], row["noise_floor"]) == (method, floor)]
            if not done:
                continue
            printed = Trained()
            if done[0]["dataset"] == NOISE_FLOOR_DATASET:
                printed = NOISE_FLOOR[floor].get(method, Trained())
            body.append([f"{method}, σ² ≥ {floor:g}", *comparison_cells(done, [], printed, COLUMNS)])
        note = (
            f"{all_rows[0]['data']}, on {machines(all_rows)}. {scaling(all_rows)} {variances(all_rows)} "
            f"{footnotes(body)}"
        )
        return [Table("Training by noise floor", ["method", *comparison_headings(COLUMNS)], body, note.strip())]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        by_floor = {floor: traces_of(rows, folder, noise_floor=floor) for _, floor in TRAINED}
        text = "Where σ² would go below its floor, it flattens there."
        return [training_chart(f"σ² ≥ {floor:g}", text, traces) for floor, traces in by_floor.items() if traces]


def _cell(method: str, floor: float, seed: int, options: Options, path: Path) -> Row:
    return train_and_test(method, load(*PAIR, options, seed), "matern52", floor, seed, options, path)
