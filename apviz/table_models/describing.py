"""A fitted model in words: its hyperparameters in the units of the table, and how well it predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import binom

from apviz.datasets.sphere import is_on_sphere
from apviz.kernels import Kernel, Product
from apviz.kernels.algebra import OfInputs
from apviz.table_models.saved import encodings_of, target_of, training_range

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess
    from apviz.gp.estimator.leave_one_out import LeftOut

#: Number of lengthscales shown.
SHOWN: Final = 20
LEVEL: Final = 0.95
#: Share of right models whose intervals are called too narrow or too wide by chance.
CHANCE: Final = 1e-3
Row = tuple[str, str, str]


def kernel_in_words(kernel: Kernel) -> str:
    """Return the name of a kernel, with those of its parts."""
    if isinstance(kernel, Product):
        return " × ".join(map(kernel_in_words, kernel.kernels))
    if isinstance(kernel, OfInputs):
        return kernel_in_words(kernel.kernel)
    return getattr(kernel, "title", "") or kernel.name


def hyperparameters_in_words(gp: GaussianProcess) -> list[Row]:
    """Return the hyperparameters in the units of the table: a name, a value and an explanation each."""
    h, name = gp.scaling_.to_raw(gp.hyperparameters_), target_of(gp)
    found = [*_scales_in_words(gp), *((key, f"{value:.3g}", "") for key, value in h.kernel_parameters.items())]
    if (outputscale := h.build_kernel().numbers.get("outputscale")) is not None:
        rounded = f"{outputscale:.3g}"
        if 1e3 <= outputscale < 1e6:  # without an exponent
            rounded = f"{float(rounded):,.0f}"
        found.append(("outputscale", rounded, f"signal sd {outputscale**0.5:.3g} in units of {name}"))
    found.append(("noise sd", f"{h.noise**0.5:.3g}", f"in units of {name}"))
    if gp.drift_ is None:
        return [*found, ("prior mean", f"{h.mean:.3g}", f"in units of {name}")]
    of_rows = gp.scaling_.mean + gp.scaling_.std * gp.drift_.mean(gp.rows_.x).numpy()
    return [*found, (f"{gp.drift} drift", "", f"from {of_rows.min():.4g} to {of_rows.max():.4g} in units of {name}")]


def _scales_in_words(gp: GaussianProcess) -> list[Row]:
    """Return rows on the lengthscales, the shortest ones if there are many."""
    h, names = gp.scaling_.to_raw(gp.hyperparameters_), [str(name) for name in gp.feature_names_in_]
    if not isinstance(gp.hyperparameters_.kernel, str):
        on_sphere = is_on_sphere(encodings_of(gp))
        in_km = ("lengthscale", "0.lengthscale") if on_sphere else ()
        numbers = {key: value for key, value in h.build_kernel().numbers.items() if key != "outputscale"}
        return [
            (key, f"{value:.3g}", "in km, along chords of the Earth" if key in in_km else "")
            for key, value in numbers.items()
        ]
    scales = np.broadcast_to(np.array(h.lengthscale), len(names))
    # relative to the range of each input, the shortest matter most
    order = np.argsort(np.broadcast_to(np.array(gp.hyperparameters_.lengthscale), len(scales)), kind="stable")
    low, high = training_range(gp)
    found = [
        (f"lengthscale of “{names[k]}”", f"{scales[k]:.3g}", f"values from {low[k]:.4g} to {high[k]:.4g}")
        for k in sorted(order[:SHOWN])
    ]
    if len(order) > SHOWN:
        found.append((f"{len(order) - SHOWN} longer lengthscales", f"from {scales[order[SHOWN]]:.3g}", ""))
    return found


def check_in_words(found: LeftOut, gp: GaussianProcess) -> str:
    """Say how well the model predicts rows from all others, in three lines."""
    n = gp.posterior_.system.n
    what = "distinct inputs" if gp.rows_.are_merged else "rows"
    rows = f"{n:,} {what}" if len(found.rows) == n else f"{len(found.rows):,} of {n:,} {what}, at random"
    means = (
        "\n  (rows with equal inputs are left out together, and their mean is predicted)" if gp.rows_.are_merged else ""
    )
    return (
        f"Leave-one-out on {rows}, hyperparameters fixed:{means}\n"
        f"  RMSE {found.rmse:.3g} (sd of {target_of(gp)}: {gp.scaling_.std:.3g}), "
        f"NLL {found.negative_log_likelihood:.3g} nats a row,\n"
        f"  {found.coverage(LEVEL):.1%} of them within their {LEVEL:.0%} interval.{_calibration(found)}"
    )


def _calibration(found: LeftOut) -> str:
    """Return a sentence if more or fewer rows are within their interval than chance explains, else nothing."""
    inside, (low, high) = found.coverage(LEVEL), binom.interval(1 - CHANCE, len(found.rows), LEVEL)
    if inside * len(found.rows) < low:
        return "\n  So the intervals are too narrow. Train on more rows, or try another kernel."
    if inside * len(found.rows) > high:
        return "\n  So the intervals are wider than they need to be. Another kernel may suit these data."
    return ""
