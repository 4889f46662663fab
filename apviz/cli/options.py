"""Options shared by commands, in the groups shown by `--help`, and the examples below them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from apviz.datasets.tables.reading import FORMATS
from apviz.kernels import KERNELS
from apviz.methods import METHODS, SETTINGS
from apviz.partitions import PARTITIONS
from apviz.rules import RULES

DATA: Final = "Data"
MODEL: Final = "Model"
KRIGING: Final = "Model by its variogram"
METHODS_PANEL: Final = "Methods"
RUN: Final = "Run"
OUTPUT: Final = "Output"

SOURCE: Final = f"Data set (see `apviz datasets`) or file: {FORMATS}."


def option(panel: str, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Describe an option in a group, with one sentence of help."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


def examples(*commands: str) -> str:
    """Return the commands as the last lines of a command's help."""
    return "\n\n".join(["Examples:", *commands])


def among(names: Any) -> str:
    """Return a sentence with the values that an option accepts."""
    return f"Accepted: {', '.join(names)}."


# --- data -------------------------------------------------------------------------------------------------------------

Target = Annotated[str | None, option(DATA, "NAME", "Predict this column of a file.")]
Inputs = Annotated[str | None, option(DATA, "NAMES", "Use these columns as inputs; default: all that vary.")]
Missing = Annotated[str, option(DATA, "HOW", "Treat missing values: drop the row, fill or refuse.")]
Duplicates = Annotated[
    str,
    option(
        DATA, "HOW", "Keep rows with equal inputs, merge them (same predictions), or drop those with equal targets."
    ),
]
Ids = Annotated[str, option(DATA, "HOW", "Keep columns that number the rows, such as an ID, or drop them.")]
Decimal = Annotated[
    list[str] | None,
    option(DATA, "MARK", "Set the decimal mark for numbers such as 70,567: . or , or NAME=. for one column."),
]
Dates = Annotated[
    list[str] | None,
    option(
        DATA,
        "ORDER",
        "Set the order of dates such as 03/04/2020: day-first or month-first, or NAME=ORDER for one column.",
    ),
]
Rows = Annotated[int | None, option(DATA, "N", "Keep this number of training rows; default: all.")]
# torchrun claims --n as one of its own options, and rejects it
RowsOrN = Annotated[int | None, option(DATA, "N", "Keep this number of training rows; default: all.", "--n", "--rows")]
Seed = Annotated[int, option(DATA, "SEED", "Seed the split and the probe vectors.")]

# --- model ------------------------------------------------------------------------------------------------------------

Kernel = Annotated[str | None, option(MODEL, "NAME", f"Choose the kernel. {among(KERNELS)}")]
# `apviz fit` has its own, in the units of the table
Lengthscale = Annotated[
    str | None, option(MODEL, "NUMBERS", "Set one lengthscale, or one per input, of inputs scaled to −1 to 1.")
]
Outputscale = Annotated[
    float | None, option(MODEL, "NUMBER", "Set the kernel's variance, of a target scaled to variance 1.")
]
Noise = Annotated[float | None, option(MODEL, "NUMBER", "Set the noise variance σ², of a target scaled to variance 1.")]
RightHandSides = Annotated[int, option(MODEL, "N", "Solve for N right-hand sides: targets and N − 1 probes.")]

# --- methods ----------------------------------------------------------------------------------------------------------

Methods = Annotated[str, option(METHODS_PANEL, "NAMES", f"Compare these methods. {among(METHODS)}")]
Rules = Annotated[str, option(METHODS_PANEL, "NAMES", f"Choose the next block by these rules. {among(RULES)}")]
BlockSizes = Annotated[str, option(METHODS_PANEL, "NUMBERS", "Set the rows a block owns.")]
Partition = Annotated[str, option(METHODS_PANEL, "NAMES", f"Form blocks by these partitions. {among(PARTITIONS)}")]
Overlap = Annotated[float, option(METHODS_PANEL, "SHARE", "Widen blocks by a margin, as a share of their rows.")]
Rank = Annotated[
    str,
    option(
        METHODS_PANEL, "NUMBERS",
        f"Set the rank of {', '.join(name for name, entry in METHODS.items() if 'rank' in entry.sweeps)}.",
    ),
]  # fmt: skip
Tolerance = Annotated[float, option(METHODS_PANEL, "NUMBER", f"Set the tolerance: {SETTINGS['tol'].help.lower()}")]
MaxEpochs = Annotated[int, option(METHODS_PANEL, "N", "Limit the epochs, or the iterations of CG.")]

# --- run --------------------------------------------------------------------------------------------------------------

Dtype = Annotated[str, option(RUN, "DTYPE", "Compute in float32 or float64.")]
Device = Annotated[str, option(RUN, "DEVICE", "Compute on auto, cpu or cuda.")]
Engine = Annotated[str, option(RUN, "ENGINE", "Evaluate K by auto, dense, tiled, fourier, keops, or fused on a GPU.")]
Scheduler = Annotated[str | None, option(RUN, "URL", "Run on the workers of a Dask scheduler, tcp://….")]
Workers = Annotated[int | None, option(RUN, "N", "Run on N local workers instead.")]

# --- output -----------------------------------------------------------------------------------------------------------

Force = Annotated[bool, option(OUTPUT, None, "Replace an existing file.", "--force")]
