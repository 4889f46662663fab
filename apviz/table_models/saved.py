"""A model of a table: loading, the columns it needs, the range of its inputs, and its accuracy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from apviz.datasets.sphere import AnyEncoding
from apviz.datasets.tables.encoding import Encoding

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess
    from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy

Array = NDArray[np.float64]

#: Error, in posterior standard deviations, that no reader needs as a number.
NEGLIGIBLE: Final = 1e-6


def load_model(path: Path, device: str) -> GaussianProcess:
    """Load a model whose inputs have names."""
    from apviz.gp.estimator.gaussian_process import GaussianProcess

    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}; `apviz fit DATASET --out {path}` writes one")
    gp = GaussianProcess.load(path, device=device)
    if not hasattr(gp, "feature_names_in_"):
        raise ValueError(f"{path} was fitted to an array, whose columns have no names; fit it to a table or a frame")
    return gp


def encodings_of(gp: GaussianProcess) -> tuple[AnyEncoding, ...]:
    """Return how columns become the inputs. A model that was fitted in Python has numbers only."""
    if gp.columns_ is not None:
        return gp.columns_
    return tuple(Encoding(column=name) for name in gp.feature_names_in_)


def target_of(gp: GaussianProcess) -> str:
    """Return the name of the target."""
    return gp.target_name_ or "y"


def training_range(gp: GaussianProcess) -> tuple[Array, Array]:
    """Return the smallest and the largest training value of each input, (d,), in its units."""
    x = gp.rows_.x.numpy()
    low, high = (gp.scaling_.centre + gp.scaling_.half_width * each for each in (x.min(axis=0), x.max(axis=0)))
    return low, high


def ranges_of(gp: GaussianProcess) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest training value of each input, by its name."""
    low, high = training_range(gp)
    return dict(zip(map(str, gp.feature_names_in_), zip(low.tolist(), high.tolist(), strict=True), strict=True))


def accuracy_of(gp: GaussianProcess, found: PredictionAccuracy | None = None) -> str:
    """Say how far means may be off because the solve ended, in posterior standard deviations of f."""
    ended = "" if gp.solution_.converged else f"; it did not converge: it {gp.solution_.stop_message}"
    if found is not None and found.sampled >= found.points and max(found.mean_error(), found.sd_error()) < NEGLIGIBLE:
        return f"Accuracy: the solver's error is negligible, below a millionth of the uncertainty{ended}"
    if found is not None and found.sampled:
        return f"Accuracy: {found.sentence}{ended}"
    if not math.isfinite(gp.mean_error_):
        return f"Solve: the error of the means is not known{ended}"
    from apviz.gp.prediction.prediction_accuracy import how_known

    how = how_known(gp.solution_) if found is None else found.how_in_words
    if gp.mean_error_ < NEGLIGIBLE:
        return f"Solve: the error of the means is negligible, below a millionth of the uncertainty ({how}){ended}"
    return f"Solve: no mean is off by more than {gp.mean_error_:.2g} posterior sd of f ({how}){ended}"
