"""Settings of a solve recorded with pictures: its method and number of updates; and their widgets."""

from __future__ import annotations

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.comparison import choose_solvers
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.methods import BlockChoice
from apviz.methods import CHOLESKY, METHODS, SETTINGS
from apviz.solvers import Solver

#: Most residuals, and for one input weights, that one run may record.
MAX_RECORDED_VALUES = 20_000_000

#: Methods except Cholesky, which ends after one update.
PICTURED_METHODS = tuple(name for name, entry in METHODS.items() if entry.family != CHOLESKY)


class RecordChoice(BlockChoice):
    """Settings of one method, and of the updates after which the residual is recorded."""

    method = param.Selector(default="ap", objects=list(PICTURED_METHODS), label="Method")
    partition = param.Selector(default="principal-axis-tree")
    block_size = param.Integer(100, bounds=(1, None), label=SETTINGS["block_size"].label)
    overlap = param.Number(0.5)
    rank = param.Integer(100, bounds=(1, None), label=SETTINGS["rank"].label)
    max_epochs = param.Integer(100)
    updates = param.Integer(60, bounds=(1, 5_000), label="Updates to record")

    def solver(self, n: int, seed: int) -> Solver:
        """Return the solver for a system of n rows.

        Raises:
            ValueError: The solver rejects a setting, or a run may not record so much.
        """
        if n * (self.updates + 1) > MAX_RECORDED_VALUES:
            raise ValueError(
                f"{self.updates:,} updates of {n:,} rows are more than the {MAX_RECORDED_VALUES:,} numbers that are "
                f"recorded of one run; record at most {max(0, MAX_RECORDED_VALUES // n - 1):,} updates, or take fewer "
                "rows"
            )
        (solver,) = choose_solvers(
            [self.method], rules=[self.rule], block_sizes=[self.block_size], partitions=[self.partition],
            overlap=self.overlap, ranks=[self.rank], tol=self.tol, max_epochs=self.max_epochs, seed=seed,
        )  # fmt: skip
        return solver


class RecordingPanel:
    """Widgets of `RecordChoice`; those of settings that the method does not have are hidden.

    Attributes:
        basic: Widgets of the method and its main settings, from top to bottom.
        advanced: Widgets of the other settings.
    """

    def __init__(self, recording: RecordChoice, fields: Fields) -> None:
        p, wide = recording.param, {"sizing_mode": "stretch_width"}
        options = {METHODS[name].name: name for name in PICTURED_METHODS}
        block_size, rank = fields.add(p.block_size, **wide), fields.add(p.rank, **wide)
        of_blocks = recording.block_panel(fields)

        def fit(*events: object) -> None:
            for field in (block_size, *of_blocks):
                field.visible = "block_size" in METHODS[recording.method].sweeps
            rank.visible = "rank" in METHODS[recording.method].sweeps

        recording.param.watch(fit, "method")
        fit()
        self.basic: list[Viewable] = [
            pmui.Select.from_param(p.method, options=options, **wide), block_size, fields.add(p.tol, **wide),
            fields.add(p.max_epochs, **wide), fields.add(p.updates, **wide),
        ]  # fmt: skip
        self.advanced: list[Viewable] = [*of_blocks, rank]
