"""A trace: everything recorded about one solve, as an xarray `DataTree` in memory or in a Zarr v3 directory."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import zarr

from apviz.analysis.geometry import functions, principal_plane
from apviz.files import folder_made_whole
from apviz.method import Method
from apviz.spectrum import conjugate_gradient_bound, theorem_1
from apviz.tracing.schema import FINISHED

#: test errors this close to the last are as good as it
RMSE_SHARE = 0.01

_SYMBOLS = {"kappa": "κ", "kappa_prime": "κ′"}


def is_estimate(value: xr.DataArray) -> bool:
    """Whether a recorded number is an estimate; one that does not say so is taken for it."""
    return bool(value.attrs.get("is_estimate", True))


def condition_words(name: str, value: float, *, estimated: bool, form: str = ".3g") -> str:
    """`κ = 1.02`, `κ ≈ 121` for an estimate, `κ unknown`.

    Args:
        name: `kappa` or `kappa_prime`.
    """
    if not math.isfinite(value):
        return f"{_SYMBOLS[name]} unknown"
    return f"{_SYMBOLS[name]} {'≈' if estimated else '='} {value:{form}}"


class Trace:
    """What was recorded about one solve; the groups and variables are listed in `apviz.tracing.schema`.

    `trace["update"]["energy_decrease"]` is an xarray variable; `trace.tree` is the `DataTree` itself.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree

    @property
    def attrs(self) -> dict[str, Any]:
        """The root attributes: data, kernel, settings, machine, status."""
        return self.tree.attrs  # type: ignore[return-value]

    @property
    def label(self) -> str:
        """The method in a few words, to be read; `method` is the same as data."""
        return str(self.attrs["label"])

    @property
    def method(self) -> Method:
        """Which method solved."""
        return Method.from_plain(self.attrs["method"])

    @property
    def block_size(self) -> int | None:
        """Rows a block owns; None of a method without blocks."""
        size = self.method.block_size
        return int(size) if self.method.has_blocks and isinstance(size, int) else None

    @property
    def finished(self) -> bool:
        """Whether a stop reason was reached; if not, the solve was interrupted, or still runs."""
        return bool(self.attrs["status"] == FINISHED)

    @property
    def converged(self) -> bool:
        return self.attrs.get("stop_reason") == "converged"

    @property
    def outcome(self) -> str:
        """The stop reason, or the status where none was reached."""
        return str(self.attrs.get("stop_reason", self.attrs["status"]))

    def __contains__(self, group: str) -> bool:
        return group in self.tree.children

    def __getitem__(self, group: str) -> xr.Dataset:
        """One of the groups `update`, `epoch`, `block`, `spectrum`, `rows`, `snapshot`, `eigenvalues`.

        Raises:
            KeyError: a group this trace does not have; the message lists those it has.
        """
        if group not in self:
            raise KeyError(f"this trace of {self.label} has no group {group!r}; it has {', '.join(self.tree.children)}")
        return self.tree[group].to_dataset()

    def to_dataframe(self, group: str = "epoch") -> pd.DataFrame:
        """The variables of a group that have its own dimension only, indexed by it (`epoch`, `update`, `block`)."""
        data = self[group]
        flat = [name for name, variable in data.data_vars.items() if variable.dims == (group,)]
        return data[flat].to_dataframe()

    def save(self, path: str | Path) -> None:
        """Writes the trace to a new Zarr directory, whole or not at all.

        Raises:
            FileExistsError: something is there already.
            OSError: the disk is full or gone.
        """
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists; choose another path, for a trace is never overwritten")
        with warnings.catch_warnings():
            # Zarr's specification does not have consolidated metadata yet; xarray reads and writes it
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            # plain bytes, as a recorder writes them: what may be imported needs no decoder
            plain = {
                f"/{name}": {variable: {"compressors": None} for variable in group.variables}
                for name, group in self.tree.children.items()
            }
            # also what is all NaN or 0, so that a chunk that is not there was lost
            with folder_made_whole(Path(path)) as making, zarr.config.set({"array.write_empty_chunks": True}):
                self.tree.to_zarr(making, zarr_format=3, consolidated=True, encoding=plain)

    def sufficient_epoch(self, share: float = RMSE_SHARE, end: float | None = None) -> int | None:
        """The row of `epoch` from which on the test RMSE stays within `share` of its last value.

        Solving on after it does not change the predictions, where the run converged: the end of one that did not is
        no better than where it was cut off. None where fewer than two epochs have a test RMSE.

        Args:
            end: in place of the last value, such as that of a run that converged; None also where it is not kept to.
        """
        rmse = self["epoch"]["test_rmse"].values
        known = np.flatnonzero(np.isfinite(rmse))
        if len(known) < 2:
            return None
        end = float(rmse[known[-1]]) if end is None else end
        far = np.flatnonzero(np.abs(rmse[known] - end) > share * end)
        if not len(far):
            return int(known[0])
        return int(known[far[-1] + 1]) if far[-1] + 1 < len(known) else None

    def condition(self, name: str = "kappa", form: str = ".3g") -> str:
        """κ, or κ′ for `kappa_prime`, in words: `κ = 1.02`, `κ ≈ 121` for an estimate, `κ unknown`."""
        value = self["spectrum"][name]
        return condition_words(name, float(value), estimated=is_estimate(value), form=form)

    def k_norm_error(self) -> xr.Dataset:
        """‖W−W*‖²_K after every epoch, from the recorded energies, and theory's bound on it.

        ‖W−W*‖²_K = 2(h(W) − h(W*)). What the recorded solve left over is not known but lies between
        ‖R‖²_F/λmax and ‖R‖²_F/λmin, so the error is a band: `lower`, `upper`. `bound` starts from the upper
        edge at epoch 0: Theorem 1 for gauss-southwell, the same in expectation for random, the CG bound for
        plain CG, NaN where theory gives none.
        """
        epoch, spectrum = self["epoch"], self["spectrum"]
        energy = epoch["energy"].values
        last = epoch["residual_per_rhs"].values[-1] * np.asarray(self.attrs["rhs_norms"])
        left = float((last**2).sum())
        done = 2 * (energy - energy[-1])
        lower = np.maximum(done, 0) + left / spectrum.attrs["lambda_max_bound"]
        upper = np.maximum(done, 0) + left / spectrum.attrs["lambda_min_bound"]
        factor, name, is_estimate, how = self._theory(epoch["epoch"].values)
        return xr.Dataset(
            {
                "lower": ("epoch", lower, {"long_name": "‖W−W*‖²_K at least", "units": "energy"}),
                "upper": ("epoch", upper, {"long_name": "‖W−W*‖²_K at most", "units": "energy"}),
                "bound": ("epoch", factor * upper[0], {"long_name": name, "units": "energy"}),
            },
            coords={"epoch": epoch["epoch"]},
            attrs={"bound_name": name, "bound_is_estimate": is_estimate, "how": how},
        )

    def plane(self) -> xr.Dataset:
        """Where each row lies in the plane of the first two principal axes, see `apviz.analysis.geometry`."""
        return principal_plane(self)

    def functions(self) -> xr.Dataset:
        """The function after each snapshot of a run with one input, see `apviz.analysis.geometry`."""
        return functions(self)

    def _theory(self, epochs: np.ndarray) -> tuple[np.ndarray, str, bool, str]:
        """The factor on the initial error, the bound's name, whether it is an estimate, and how its κ was got."""
        spectrum = self["spectrum"]
        rule = self.method.rule
        if rule in ("gauss-southwell", "random"):
            kappa_prime = spectrum.attrs["lambda_max_block_bound"] / spectrum.attrs["lambda_min_bound"]
            # by updates done, for a solve that was stopped inside an epoch, be it the first
            of_update = self["update"]["epoch_of_update"].values if "update" in self else np.array([], dtype=int)
            done = np.searchsorted(of_update, epochs, side="right")
            epochs = done / self["block"].sizes["block"]
            name = "Theorem 1" if rule == "gauss-southwell" else "Theorem 1, in expectation"
            how = f"κ′ ≤ {kappa_prime:.3g}, from bounds on λ′max and λmin"
            return theorem_1(epochs, kappa_prime), name, False, how
        if self.method.is_plain_cg and self.method.source is None:
            kappa = spectrum["kappa"]
            how = f"{self.condition()}: {kappa.attrs['how']}"
            factor = conjugate_gradient_bound(epochs, float(kappa))
            return factor, "CG bound", is_estimate(kappa), how
        return np.full(len(epochs), np.nan), "no bound is known", False, ""

    def __repr__(self) -> str:
        a = self.attrs
        name = a["dataset"] or "unnamed data"
        last = self["epoch"].isel(epoch=-1)
        state = f"{self.outcome} after {int(last['epoch'])} epochs, residual {float(last['residual']):.2e}"
        return f"Trace({self.label} on {name}, n={a['n']}, d={a['d']}: {state})"
