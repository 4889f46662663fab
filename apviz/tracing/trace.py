"""A trace: everything recorded about one solve, as an xarray `DataTree` in memory or in a Zarr v3 directory."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import xarray as xr
import zarr

from apviz.method import Method
from apviz.methods import COLOURED_PROJECTION
from apviz.places import Place, is_there, made_whole, place_of, write_files, write_whole
from apviz.settings import require_kind
from apviz.tracing.schema import FAILED, FINISHED, INTERRUPTED, SETTLED

if TYPE_CHECKING:
    from apviz.kernels import Kernel

_SYMBOLS: Final = {"kappa": "κ", "kappa_prime": "κ′"}
#: by value of the group `spectrum`: the attributes that bound it (numerator, denominator), and the direction
_BOUNDS: Final[dict[str, tuple[str, str | None, str]]] = {
    "lambda_max": ("lambda_max_bound", None, "≤"),
    "lambda_min": ("lambda_min_bound", None, "≥"),
    "lambda_max_block": ("lambda_max_block_bound", None, "≤"),
    "kappa": ("lambda_max_bound", "lambda_min_bound", "≤"),
    "kappa_prime": ("lambda_max_block_bound", "lambda_min_bound", "≤"),
}
#: by kind of a certificate: how the residual is known, in words
_KNOWN: Final = {
    "bounded": "residual by products whose error is bounded",
    "sampled": "residual by products whose error is measured on random rows",
}
#: the error of an entry, in the words of an engine that evaluates none
_ERROR = re.compile(r" to (\d[\d.e+-]*)")
#: relative difference below which a value is its bound
_SAME = 1e-9


def kernel_of(attrs: Mapping[str, Any]) -> Kernel:
    """Rebuild the kernel of a recorded solve from the root attributes of its trace.

    Raises:
        ValueError: the kernel is not one of apviz's, and a trace holds no code.
    """
    from apviz.kernels import KERNELS, from_expression, kernel_named  # here: these need torch, reading a trace does not

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
    """Return the error for a kernel that is not one of apviz's, with what to do."""
    return ValueError(
        f"a trace does not hold the code of the kernel {name:.80}, which is not apviz's: create the kernel again in "
        "Python, and solve there"
    )


def is_estimate(value: xr.DataArray) -> bool:
    """Test whether a recorded number is an estimate; a number without `is_estimate` counts as one."""
    return bool(value.attrs.get("is_estimate", True))


def sign_of(group: xr.Dataset, name: str) -> str:
    """Return the sign to show before a number of the group `spectrum` or `step`.

    It is `=`, `≈` for an estimate, `≤` or `≥` for a bound, such as a κ whose λmin is σ².
    """
    value = group[name]
    if not is_estimate(value):
        return "="
    over, under, sign = _BOUNDS.get(name, ("", None, ""))
    bound = group.attrs.get(over, math.nan)
    bound = bound / group.attrs.get(under, math.nan) if under is not None else bound
    return sign if value.ndim == 0 and math.isclose(float(value), bound, rel_tol=_SAME) else "≈"


def common_sign(signs: Iterable[str]) -> str:
    """Return one sign for several numbers: that of all which are not exact, `≈` where these differ."""
    different = set(signs)
    return next((sign for sign in ("=", "≤", "≥") if different <= {"=", sign}), "≈")


def condition_words(name: str, value: float, sign: str, form: str = ".3g") -> str:
    """Format a condition number: `κ = 1.02`, `κ ≈ 121` for an estimate, `κ ≤ 4e+07` for a bound, `κ unknown`.

    Args:
        name: `kappa` or `kappa_prime`.
        sign: from `sign_of`.
    """
    if not math.isfinite(value):
        return f"{_SYMBOLS[name]} unknown"
    return f"{_SYMBOLS[name]} {sign} {value:{form}}"


def residual_words(residual: float, is_measured: bool, form: str = ".2e") -> str:
    """Format a residual: `1.30e-03`, or `≈ 1.30e-03` for the recursion's, which may have drifted."""
    return f"{'' if is_measured else '≈ '}{residual:{form}}"


def certificate_words(kind: str) -> str:
    """Say how a residual is known, in brackets after it; nothing for an exact one, or the recursion's."""
    return "" if kind in ("", "exact") else f" ({kind})"


#: reasons of a stop in words
_REASONS: Final = {"max_epochs": "epoch limit", "stopped": "stopped early"}


def status_words(reason: str, residual: str = "") -> str:
    """Say how a solve ended: `Converged`, `Not converged: epoch limit (residual 0.012)`.

    Args:
        reason: why it stopped, or the status of one that has not ended.
        residual: at its end, as text; leave it out where a column shows it.
    """
    if reason in ("converged", SETTLED, FINISHED):
        return reason.capitalize()
    if reason in (INTERRUPTED, FAILED):
        # without a residual, which in the name of a curve that grows would change with every epoch
        return "Unfinished: interrupted, or still running"
    at = f" (residual {residual})" if residual else ""
    return f"Not converged: {_REASONS.get(reason, reason)}{at}"


def traces_in(traces: Any, name: str = "traces") -> list[Trace]:
    """Return one or several traces as a list.

    Raises:
        TypeError: one of them is not a trace; the message shows it.
    """
    try:
        several = [traces] if isinstance(traces, Trace) else list(traces)
    except TypeError:
        several = [traces]
    for each in several:
        require_trace(each, name)
    return several


def require_trace(trace: object, name: str = "trace") -> None:
    """Raise where an argument is not a trace.

    Raises:
        TypeError: the message shows the argument.
    """
    require_kind(name, trace, Trace, "an apviz.Trace, such as recorder.trace or apviz.open_trace(path)")


def require_free(place: Place) -> None:
    """Raise where a trace would overwrite something.

    Raises:
        FileExistsError: something is at the place.
    """
    if is_there(place):
        raise FileExistsError(f"{place} exists; choose another path: traces are never overwritten")


class Trace:
    """Hold the record of one solve; its groups and variables are listed in `apviz.tracing.schema`.

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
        """Return the root attributes: data, kernel, settings, machine, status."""
        return self.tree.attrs  # type: ignore[return-value]

    @property
    def method_name(self) -> str:
        """Return what a person calls the method; `method` holds it as data."""
        return str(self.attrs["method_name"])

    @property
    def method_details(self) -> str:
        """Return the settings that the name of the method leaves out, in words; empty for none."""
        return str(self.attrs["method_details"])

    @property
    def details(self) -> str:
        """Return the details of the method, and how products and residual were computed if not from all entries."""
        found = [self.method_details]
        if self.work_converts_seconds:
            error = _ERROR.search(str(self.attrs["engine"]))
            found.append("near + far: Fourier products" + (f", entries to {error[1]} of k(0)" if error else ""))
        found.append(_KNOWN.get(str(self.attrs.get("certificate", "")), ""))
        return "; ".join(filter(None, found))

    @property
    def method(self) -> Method:
        """Return the method of the solve, as data."""
        return Method.from_plain(self.attrs["method"])

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of the solve, with its hyperparameters.

        Raises:
            ValueError: the kernel is not one of apviz's, and a trace holds no code.
        """
        return kernel_of(self.attrs)

    @property
    def preparation(self) -> dict[str, Any]:
        """Return how a table of the user became data: choices, file, `notes` in words; empty for other data."""
        return dict(json.loads(self.attrs.get("data_preparation", "{}")))

    @property
    def oddities(self) -> tuple[str, ...]:
        """Return what is odd about inputs and targets, a sentence each; see `apviz.datasets.tables.oddities`."""
        return tuple(str(each["message"]) for each in self.attrs.get("oddities", []))

    def noise_in_words(self, digits: int) -> str:
        """Format σ², or its range where rows have their own."""
        least, largest = self.attrs["noise"], self.attrs.get("largest_noise")
        return f"{least:.{digits}g}" + ("" if largest is None else f" to {largest:.{digits}g}")

    @property
    def block_size(self) -> int | None:
        """Return the rows a block owns; None for a method without blocks."""
        size, method = self.method.block_size, self.method
        owns = method.has_blocks or method.family == COLOURED_PROJECTION
        return int(size) if owns and isinstance(size, int) else None

    @property
    def parts(self) -> str | None:
        """What an update projects onto, a `block` or a `colour` of far-apart blocks, also its group; else None."""
        return next((group for group in ("block", "colour") if group in self), None)

    @property
    def finished(self) -> bool:
        """Test whether the solve reached a stop reason; if not, it was interrupted or still runs."""
        return bool(self.attrs["status"] == FINISHED)

    @property
    def converged(self) -> bool:
        """Test whether the residual, recomputed from B − KW, reached the tolerance."""
        return self.attrs.get("stop_reason") == "converged"

    @property
    def work_converts_seconds(self) -> bool:
        """Whether products without kernel entries count as work by their seconds, at the measured rate of entries."""
        return bool(self.attrs.get("work_converts_seconds", False))

    @property
    def residual_is_measured(self) -> bool:
        """Test whether the last residual is that of B − KW, as a claim needs it; else it is the recursion's."""
        epoch = self["epoch"]
        return "residual_rounding" in epoch and bool(epoch["residual_rounding"][-1].notnull())

    def residual_in_words(self, form: str = ".2e") -> str:
        """Format the last residual as `residual_words` does."""
        known = certificate_words(str(self.attrs.get("certificate", "")))
        return residual_words(float(self["epoch"]["residual"][-1]), self.residual_is_measured, form) + known

    def status(self, *, with_residual: bool = True) -> str:
        """Say how the solve ended, so that one that did not converge never looks like one that did.

        Args:
            with_residual: name the last residual of a solve that did not converge.
        """
        is_known = with_residual and "epoch" in self and self["epoch"].sizes["epoch"] > 0
        return status_words(self.outcome, self.residual_in_words(".2g") if is_known else "")

    @property
    def advice(self) -> str:
        """What a person can do about how the solve ended, or why it was interrupted; empty where nothing is known."""
        message = str(self.attrs.get("stop_message", ""))
        words = message.partition(": ")[2] if "stop_reason" in self.attrs else message
        return words[:1].upper() + words[1:]

    @property
    def outcome(self) -> str:
        """Return the stop reason, or the status where none was reached."""
        return str(self.attrs.get("stop_reason", self.attrs["status"]))

    def __contains__(self, group: str) -> bool:
        return group in self.tree.children

    def __getitem__(self, group: str) -> xr.Dataset:
        """Return a group: `update`, `epoch`, `pass`, `block`, `colour`, `spectrum`, `rows`, `snapshot`, `eigenvalues`.

        Raises:
            KeyError: the trace has no such group; the message lists its groups.
        """
        if group not in self:
            raise KeyError(
                f"this trace of {self.method_name} has no group {group!r}; it has {', '.join(self.tree.children)}"
            )
        return self.tree[group].to_dataset()

    def to_dataframe(self, group: str = "epoch") -> pd.DataFrame:
        """Return the variables of a group whose only dimension is that of the group, such as `epoch`, indexed by it."""
        data = self[group]
        flat = [name for name, variable in data.data_vars.items() if variable.dims == (group,)]
        return data[flat].to_dataframe()

    def save(self, path: str | Place) -> None:
        """Write the trace to a new Zarr directory, or to a URL of an object store, whole or not at all.

        Raises:
            FileExistsError: the path exists.
            OSError: the disk is full or unavailable.
        """
        place = place_of(path)
        require_free(place)
        files = self._files()
        root = files.pop("zarr.json")
        with made_whole(place) as making:
            write_files(making, files.items())
            # last: without its root there is no trace
            write_whole(making / "zarr.json", root)

    def _files(self) -> dict[str, bytes]:
        """Return the files of the trace in Zarr v3, by their names."""
        # plain bytes, as a recorder writes them: to import a trace takes no decoder
        plain = {
            f"/{name}": {variable: {"compressors": None} for variable in group.variables}
            for name, group in self.tree.children.items()
        }
        held: dict[str, zarr.core.buffer.Buffer] = {}
        # chunks of NaN or 0 alone are written too, so that a missing chunk is a lost one
        with warnings.catch_warnings(), zarr.config.set({"array.write_empty_chunks": True}):
            # Zarr's specification does not have consolidated metadata yet; xarray reads and writes it
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            self.tree.to_zarr(zarr.storage.MemoryStore(held), zarr_format=3, consolidated=True, encoding=plain)
        return {name: content.to_bytes() for name, content in held.items()}

    def condition(self, name: str = "kappa", form: str = ".3g") -> str:
        """Format κ, or κ′ for `kappa_prime`, with its sign, as `condition_words` does."""
        spectrum = self["spectrum"]
        return condition_words(name, float(spectrum[name]), sign_of(spectrum, name), form)

    def __repr__(self) -> str:
        a = self.attrs
        name = a["dataset"] or "unnamed data"
        last = self["epoch"].isel(epoch=-1)
        state = f"{self.outcome} after {int(last['epoch'])} epochs, residual {self.residual_in_words()}"
        return f"Trace({self.method_name} on {name}, n={a['n']}, d={a['d']}: {state})"
