"""A trace: everything recorded about one solve, as an xarray `DataTree` in memory or in a Zarr v3 directory."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import xarray as xr
import zarr

from apviz.files import folder_made_whole
from apviz.method import Method
from apviz.places import Place, Remote, is_there, place_of
from apviz.settings import require_kind
from apviz.tracing.schema import FINISHED

if TYPE_CHECKING:
    from apviz.kernels import Kernel

_SYMBOLS: Final = {"kappa": "κ", "kappa_prime": "κ′"}
#: attributes of the group `spectrum` that bound its values, and which way
_BOUNDS: Final[dict[str, tuple[str, str | None, str]]] = {
    "lambda_max": ("lambda_max_bound", None, "≤"),
    "lambda_min": ("lambda_min_bound", None, "≥"),
    "lambda_max_block": ("lambda_max_block_bound", None, "≤"),
    "kappa": ("lambda_max_bound", "lambda_min_bound", "≤"),
    "kappa_prime": ("lambda_max_block_bound", "lambda_min_bound", "≤"),
}
#: relative: a value so close to its bound is that bound
_SAME = 1e-9


def kernel_of(attrs: Mapping[str, Any]) -> Kernel:
    """Rebuilds the kernel of a recorded solve from the root attributes of its trace.

    Raises:
        ValueError: a kernel of other people's code, which a trace does not hold.
    """
    from apviz.kernels import KERNELS, from_expression, kernel_named  # with torch, which a trace is read without

    name = str(attrs["kernel"])
    if attrs.get("kernel_is_foreign"):
        raise foreign_kernel(name)
    if name in KERNELS:
        shape = json.loads(attrs.get("kernel_parameters", "{}"))
        return kernel_named(name, tuple(attrs["lengthscale"]), attrs["outputscale"], **shape)
    try:
        return from_expression(name)
    except ValueError as error:
        raise foreign_kernel(name) from error


def foreign_kernel(name: str) -> ValueError:
    """Says that a kernel is none of apviz's, and what to do."""
    return ValueError(
        f"the kernel {name:.80} is code that is not apviz's, which a trace does not hold: make it again in Python, "
        "where it is defined, and solve there"
    )


def is_estimate(value: xr.DataArray) -> bool:
    """Tests whether a recorded number is an estimate; one that does not say so is taken for it."""
    return bool(value.attrs.get("is_estimate", True))


def sign_of(group: xr.Dataset, name: str) -> str:
    """Tells what is to stand before a number of the group `spectrum` or `step` wherever it is shown.

    That is `=`, `≈` before an estimate, `≤` or `≥` before a bound, such as a κ whose λmin is σ².
    """
    value = group[name]
    if not is_estimate(value):
        return "="
    over, under, sign = _BOUNDS.get(name, ("", None, ""))
    bound = group.attrs.get(over, math.nan)
    bound = bound / group.attrs.get(under, math.nan) if under is not None else bound
    return sign if value.ndim == 0 and math.isclose(float(value), bound, rel_tol=_SAME) else "≈"


def common_sign(signs: Iterable[str]) -> str:
    """Returns the sign of several numbers together: `≈` unless all have one, or are exact beside those that do."""
    different = set(signs)
    return next((sign for sign in ("=", "≤", "≥") if different <= {"=", sign}), "≈")


def condition_words(name: str, value: float, sign: str, form: str = ".3g") -> str:
    """Formats a condition number: `κ = 1.02`, `κ ≈ 121` of an estimate, `κ ≤ 4e+07` of a bound, `κ unknown`.

    Args:
        name: `kappa` or `kappa_prime`.
        sign: as `sign_of` tells it.
    """
    if not math.isfinite(value):
        return f"{_SYMBOLS[name]} unknown"
    return f"{_SYMBOLS[name]} {sign} {value:{form}}"


def residual_words(residual: float, is_measured: bool, form: str = ".2e") -> str:
    """Formats a residual: `1.30e-03`, or `≈ 1.30e-03` where it is the recursion's, which may have drifted."""
    return f"{'' if is_measured else '≈ '}{residual:{form}}"


def traces_in(traces: Any, name: str = "traces") -> list[Trace]:
    """Returns one trace, or several, as a list.

    Raises:
        TypeError: something else among them; the message shows it.
    """
    try:
        several = [traces] if isinstance(traces, Trace) else list(traces)
    except TypeError:
        several = [traces]
    for each in several:
        require_trace(each, name)
    return several


def require_trace(trace: object, name: str = "trace") -> None:
    """Refuses what is no trace.

    Raises:
        TypeError: the message shows it.
    """
    require_kind(name, trace, Trace, "an apviz.Trace, such as recorder.trace or apviz.open_trace(path)")


class Trace:
    """A record of one solve; its groups and variables are listed in `apviz.tracing.schema`.

    `trace["update"]["energy_decrease"]` is an xarray variable; `trace.tree` is the `DataTree` itself.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> trace = recorder.trace
        >>> trace.method.family, trace.outcome
        ('conjugate-gradient', 'converged')
        >>> float(trace["epoch"]["residual"][-1]) == solution.residual
        True
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
        """The method that solved, as data."""
        return Method.from_plain(self.attrs["method"])

    @property
    def kernel(self) -> Kernel:
        """The kernel of the solve, with its numbers.

        Raises:
            ValueError: a kernel of other people's code, which a trace does not hold.
        """
        return kernel_of(self.attrs)

    @property
    def preparation(self) -> dict[str, Any]:
        """What was made of the user's own table: the choices, the file, `notes` in words; empty for other data."""
        return dict(json.loads(self.attrs.get("data_preparation", "{}")))

    @property
    def oddities(self) -> tuple[str, ...]:
        """What is odd about inputs and targets, a sentence each; see `apviz.datasets.oddities`."""
        return tuple(str(each["message"]) for each in self.attrs.get("oddities", []))

    def noise_in_words(self, digits: int) -> str:
        """Writes σ², or its range where rows have their own."""
        least, largest = self.attrs["noise"], self.attrs.get("largest_noise")
        return f"{least:.{digits}g}" + ("" if largest is None else f" to {largest:.{digits}g}")

    @property
    def method_name(self) -> str:
        """The label without the sizes of blocks, for a table that has a column of them."""
        return self.label if self.method.block_size is None else self.method.name

    @property
    def block_size(self) -> int | None:
        """The rows a block owns; None of a method without blocks."""
        size = self.method.block_size
        return int(size) if self.method.has_blocks and isinstance(size, int) else None

    @property
    def finished(self) -> bool:
        """Whether a stop reason was reached; if not, the solve was interrupted, or still runs."""
        return bool(self.attrs["status"] == FINISHED)

    @property
    def converged(self) -> bool:
        """Whether the residual, recomputed from B − KW, came below the tolerance."""
        return self.attrs.get("stop_reason") == "converged"

    @property
    def residual_is_measured(self) -> bool:
        """Whether the last residual is of B − KW in float64 for these weights; else it is the recursion's."""
        epoch = self["epoch"]
        return "residual_rounding" in epoch and bool(epoch["residual_rounding"][-1].notnull())

    def residual_in_words(self, form: str = ".2e") -> str:
        """Formats the last residual as `residual_words` does."""
        return residual_words(float(self["epoch"]["residual"][-1]), self.residual_is_measured, form)

    @property
    def outcome(self) -> str:
        """The stop reason, or the status where none was reached."""
        return str(self.attrs.get("stop_reason", self.attrs["status"]))

    def __contains__(self, group: str) -> bool:
        return group in self.tree.children

    def __getitem__(self, group: str) -> xr.Dataset:
        """Returns a group: `update`, `epoch`, `pass`, `block`, `spectrum`, `rows`, `snapshot` or `eigenvalues`.

        Raises:
            KeyError: a group this trace does not have; the message lists those it has.
        """
        if group not in self:
            raise KeyError(f"this trace of {self.label} has no group {group!r}; it has {', '.join(self.tree.children)}")
        return self.tree[group].to_dataset()

    def to_dataframe(self, group: str = "epoch") -> pd.DataFrame:
        """Returns the variables of a group over its own dimension only, such as `epoch` or `pass`, indexed by it."""
        data = self[group]
        flat = [name for name, variable in data.data_vars.items() if variable.dims == (group,)]
        return data[flat].to_dataframe()

    def save(self, path: str | Place) -> None:
        """Writes the trace to a new Zarr directory, or below a URL of an object store, whole or not at all.

        Raises:
            FileExistsError: something is there already.
            OSError: the disk is full or gone.
        """
        place = place_of(path)
        if is_there(place):
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
            with zarr.config.set({"array.write_empty_chunks": True}):
                if isinstance(place, Remote):
                    held: dict[str, zarr.core.buffer.Buffer] = {}
                    self.tree.to_zarr(
                        zarr.storage.MemoryStore(held), zarr_format=3, consolidated=True, encoding=plain
                    )  # fmt: skip
                    # last: without it there is no trace
                    root = held.pop("zarr.json").to_bytes()
                    place.put((name, content.to_bytes()) for name, content in held.items())
                    place.put([("zarr.json", root)])
                else:
                    with folder_made_whole(place) as making:
                        self.tree.to_zarr(making, zarr_format=3, consolidated=True, encoding=plain)

    def condition(self, name: str = "kappa", form: str = ".3g") -> str:
        """Formats κ, or κ′ for `kappa_prime`, as `condition_words` does, with the sign of what it is."""
        spectrum = self["spectrum"]
        return condition_words(name, float(spectrum[name]), sign_of(spectrum, name), form)

    def __repr__(self) -> str:
        a = self.attrs
        name = a["dataset"] or "unnamed data"
        last = self["epoch"].isel(epoch=-1)
        state = f"{self.outcome} after {int(last['epoch'])} epochs, residual {self.residual_in_words()}"
        return f"Trace({self.label} on {name}, n={a['n']}, d={a['d']}: {state})"
