"""The system K W = B, validated on construction."""

from __future__ import annotations

import contextlib
import hashlib
import numbers
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.masked import is_masked_tensor

from apviz.kernels import Kernel
from apviz.memory import explained
from apviz.operators import Noise, Operator, make_operator
from apviz.settings import require_torch_defaults, require_whole, shown

DTYPES = (torch.float32, torch.float64)
# Share of a lengthscale; K's entries have an error of about the same size.
COARSE_LENGTHSCALES = 0.01


class KernelSystem:
    """System K W = B with K = k(X, X) + σ²I (paper, section 2).

    Args:
        x: (n, d) inputs, a tensor or anything `numpy.asarray` accepts. They are centred and scaled in float64 as
            given, and then rounded to `dtype`; give them in float64 if they are far from zero.
        b: (n,) or (n, l+1) right-hand sides: the targets minus their mean, then probe vectors.
        kernel: k, with positive lengthscales and outputscale.
        noise: σ² > 0, in squared units of the target; or (n,), one for every row.
        operator: `auto`, `dense`, `tiled`, `keops`, on a GPU `fused` or `fused-tf32x3`, or an `Operator` of the points.
        dtype: torch.float32 or torch.float64. None for the dtype of a given operator, otherwise that of the data:
            float64 if x or b is, else float32.
        device: A torch device; `auto` for that of x if it is a GPU, else a GPU if there is one.
        dataset: Name of the data, for charts and traces.
        seed: Seed of the right-hand sides, for the trace.
        preparation: Preparation of the source table (`Dataset.preparation`), for the trace.
        merged_rows: Number of rows of the table before equal inputs were merged (`apviz.duplicates`), for the trace;
            None if none were.

    Raises:
        TypeError: A kernel that is not an `apviz` kernel; x or b that are not dense real numbers.
        ValueError: Fewer than 2 rows, shapes that do not match, NaN or infinite values (which column, how many),
            a noise that is not positive, a number of lengthscales other than 1 or d, an unknown operator or dtype,
            an operator of another system, right-hand sides too small for the dtype.

    Warns if the dtype, or that of the given inputs, rounds inputs by more than a hundredth of a lengthscale.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.RBF(lengthscale=0.5), noise=0.01, device="cpu")
        >>> system.operator.diagonal()[0].item()  # k(x, x) + σ²
        1.01
        >>> apviz.solve(system, apviz.Automatic()).weights.shape
        torch.Size([200])
    """

    def __init__(
        self,
        x: Any,
        b: Any,
        kernel: Kernel,
        *,
        noise: Any,
        operator: str | Operator = "auto",
        dtype: torch.dtype | None = None,
        device: str | torch.device = "auto",
        dataset: str = "",
        seed: int | None = None,
        preparation: str = "",
        merged_rows: int | None = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be an apviz kernel such as apviz.Matern52(lengthscale=0.2), got {type(kernel).__name__}"
            )
        x, b = tensor_of(x, "x"), tensor_of(b, "b")
        if dtype is None:
            dtype = operator.x.dtype if isinstance(operator, Operator) else dtype_of(x, b)
        if not isinstance(dtype, torch.dtype) or dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32, torch.float64 or None, got {shown(dtype)}")
        if x.ndim == 1:
            x = x[:, None]
        _check_shapes(x, b)
        noise = _noise(noise, len(x))
        if merged_rows is not None:
            require_whole("merged_rows", merged_rows, len(x))
        self.device = _device(device, x)
        # copies, so that later changes of the given tensors, which may share memory, have no effect here
        with explained(f"a system of {len(x):,} rows", "use operator='tiled', which keeps no K, or float32"):
            given = _copied(x, self.device, x.dtype if x.dtype in DTYPES else torch.float64)
            check_finite(given, "x")
            #: Whether `b` was given as a vector, so that the weights are returned as one.
            self.single_column = b.ndim == 1
            b = b[:, None] if self.single_column else b
            #: (n, l+1), always two-dimensional.
            self.b = _copied(b, self.device, dtype)
            # after the conversion: a finite float64 can be infinite in float32
            check_finite(self.b, "b")
            _check_not_lost(b, self.b)
            #: (n, l+1) as given, in float64 if they were: the right-hand sides of a residual.
            self.given_b = _copied(b, self.device, b.dtype if b.dtype in DTYPES else dtype)
            self.kernel, self.dtype = kernel, dtype
            self.dataset, self.seed, self.preparation = dataset, seed, preparation
            self.merged_rows = None if merged_rows is None else int(merged_rows)
            if isinstance(operator, str):
                operator = make_operator(operator, given, kernel, noise, dtype)
                _warn_where_coarse(operator, x.dtype)
            self.operator = operator
            #: σ², or the smallest σ² if rows have their own (`operator.noises`).
            self.noise = float(noise if isinstance(noise, float) else noise.min())
            #: (n, d) in the system's dtype; the operator keeps the inputs as they were given.
            self.x = given.to(dtype)
            check_finite(self.x, "x")
            self._check_operator(given, noise)

    def fingerprint(self) -> str:
        """Return a hash of the data in float32: 16 hex digits, the same for the same x and b in any dtype."""
        found = hashlib.sha256()
        noises = self.operator.noises
        for values in (self.x, self.b, *([] if noises is None else [noises])):
            found.update(values.float().cpu().numpy().tobytes())
        return found.hexdigest()[:16]

    def with_right_hand_sides(self, b: Any, *, seed: int | None = None) -> KernelSystem:
        """Return the system of the same K with other right-hand sides."""
        s = self
        return KernelSystem(
            s.x, b, s.kernel, noise=s.operator.noise_of(), operator=s.operator, dtype=s.dtype, device=s.device,
            dataset=s.dataset, seed=seed, preparation=s.preparation,
            merged_rows=s.merged_rows,
        )  # fmt: skip

    def _check_operator(self, given: Tensor, noise: Noise) -> None:
        operator = self.operator
        if not isinstance(operator, Operator):
            raise TypeError(f"operator must be a name or an apviz operator, got {type(operator).__name__}")
        if operator.n != self.n:
            raise ValueError(f"the operator has {operator.n} points, x has {self.n}")
        noises = (torch.as_tensor(each, dtype=torch.float64).cpu() for each in (operator.noise_of(), noise))
        if operator.kernel != self.kernel or not torch.equal(*(each.expand(self.n) for each in noises)):
            raise ValueError("the operator has another kernel or noise than the system")
        if (operator.x.dtype, operator.x.device) != (self.x.dtype, self.x.device):
            raise ValueError(
                f"the operator is in {operator.x.dtype} on {operator.x.device}, "
                f"the system in {self.x.dtype} on {self.x.device}"
            )
        # another system's `x` is rounded and still belongs to its operator
        rounded = given.dtype == operator.x.dtype and torch.equal(given, operator.x)
        if not (rounded or torch.equal(given.double(), operator.given.double())):
            raise ValueError("the operator was made of other points than x")
        largest = noise if isinstance(noise, float) else float(noise.max())
        if not max(largest, operator.largest_signal) <= torch.finfo(self.dtype).max / 2:
            raise ValueError(
                f"noise = {largest:g} and k(x, x) up to {operator.largest_signal:g} are beyond what {self.dtype} "
                "holds; scale the target, or use dtype=torch.float64"
            )

    @property
    def times_written(self) -> tuple[int, ...]:
        """Numbers of in-place writes to x and b that PyTorch counted; a write makes earlier solutions invalid."""
        held = (self.x, self.b, self.given_b, self.operator.given, self.operator.inputs)
        return tuple(0 if each.is_inference() else each._version for each in held)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.x)

    @property
    def d(self) -> int:
        """Number of inputs."""
        return int(self.x.shape[1])

    def __repr__(self) -> str:
        name, noises = f"{self.dataset}, " if self.dataset else "", self.operator.noises
        most = "" if noises is None else f" to {float(noises.max()):g}"
        return (
            f"KernelSystem({name}n={self.n}, d={self.d}, {self.b.shape[1]} right-hand sides, {self.kernel.name}, "
            f"noise={self.noise:g}{most}, {self.operator.name}, {self.dtype}, {self.device})"
        )


def dtype_of(*given: Any) -> torch.dtype:
    """Return the dtype in which these data are solved by default: float64 if any is float64, else float32."""
    return torch.float64 if torch.float64 in {tensor_of(values, "data").dtype for values in given} else torch.float32


def _device(device: str | torch.device, x: Tensor) -> torch.device:
    if device == "auto" and x.is_cuda:
        return x.device
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:  # the error depends on the kind of mistake
        raise ValueError(
            f"device must be 'auto', or one of torch's such as 'cpu' or 'cuda:0', got {shown(device)}"
        ) from error
    if chosen.type == "meta":
        raise ValueError("device 'meta' holds no numbers; use device='cpu' or 'auto'")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(device)!r} was asked for, but torch sees no GPU; use device='cpu' or 'auto'")
    return chosen


def tensor_of(values: Any, name: str) -> Tensor:
    """Return values as a dense tensor of real numbers; tables and their columns are accepted too."""
    refuse_masked(values, name)
    require_torch_defaults()
    if not isinstance(values, Tensor):
        try:
            array = np.asarray(values)
        except ValueError as error:  # rows of several lengths
            raise TypeError(f"{name} must be numbers, a tensor or an array of them: {error}") from error
        if array.dtype == object and hasattr(values, "to_numpy"):  # columns of pandas' own number types
            with contextlib.suppress(TypeError, ValueError):
                array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} must be numbers, a tensor or an array of them, got {type(values).__name__} of {array.dtype}"
            )
        # a copy: an array may be read-only, run backwards or hold bytes in another order
        kept = array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.dtype(np.float64)
        values = torch.from_numpy(np.array(array, dtype=kept, order="C"))
    if values.is_meta or values.is_complex() or values.layout != torch.strided or values.is_quantized:
        kind = "a meta tensor" if values.is_meta else f"a {values.layout} tensor of {values.dtype}"
        raise TypeError(f"{name} must be a dense tensor of real numbers, got {kind}")
    tensor: Tensor = values.detach()
    return tensor


def refuse_masked(values: Any, name: str) -> None:
    """Reject arrays with masked values, also in lists, tuples and arrays of objects: NumPy would drop the mask."""
    if _is_masked(values):
        raise TypeError(f"{name} has masked values, which are missing; drop or impute these rows first")


def _is_masked(values: Any) -> bool:
    if isinstance(values, numbers.Number | str | bytes | None):
        return False
    if isinstance(values, Tensor):
        return bool(is_masked_tensor(values))
    if isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.dtype == object):
        return any(map(_is_masked, values.flat if isinstance(values, np.ndarray) else values))
    # objects may convert to a masked array; tables do not
    return hasattr(values, "__array__") and not hasattr(values, "iloc") and np.ma.is_masked(np.asanyarray(values))


def _copied(values: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return values.to(device, dtype).clone(memory_format=torch.contiguous_format)


def _check_shapes(x: Tensor, b: Tensor) -> None:
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"x must have shape (n, d) with d ≥ 1, got {tuple(x.shape)}")
    if len(x) < 2:
        raise ValueError(f"a system needs at least 2 rows, x has {len(x)}")
    if b.ndim not in (1, 2) or len(b) != len(x) or b.numel() == 0:
        raise ValueError(f"b must have shape (n,) or (n, l+1) with n = {len(x)} as x has, got {tuple(b.shape)}")


def _noise(noise: Any, n: int) -> Noise:
    """Return σ² as a number if one is given, else (n,) float64."""
    given = tensor_of(noise, "noise").double()
    given = given[None] if given.ndim == 0 else given
    if given.ndim > 1 or len(given) not in (1, n):
        raise ValueError(f"noise must be one number, or ({n},): one for every row, got shape {tuple(given.shape)}")
    bad = ~(torch.isfinite(given) & (given > 0))
    if bad.any():
        where = "" if len(given) == 1 else f" in row {int(bad.nonzero()[0, 0])}, of {int(bad.sum())} such"
        raise ValueError(
            f"noise is the variance σ² and must be finite and positive, got {float(given[bad][0])!r}{where}; "
            "without it K may be singular. GPyTorch's default floor is 1e-4"
        )
    return float(given[0]) if len(given) == 1 else given


def _check_not_lost(given: Tensor, converted: Tensor) -> None:
    """Reject nonzero columns that become zero, or lose digits, in a smaller dtype."""
    if given.dtype == converted.dtype or not given.dtype.is_floating_point:
        return
    largest, kept = given.abs().amax(0).to(converted.device), converted.abs().amax(0)
    lost = (largest > 0) & (kept < torch.finfo(converted.dtype).tiny)
    if lost.any():
        column = int(lost.nonzero()[0, 0])
        raise ValueError(
            f"the largest value in column {column} of b is {float(largest[column]):.1e}, below what {converted.dtype} "
            f"holds ({torch.finfo(converted.dtype).tiny:.1e}); scale b up and the weights down, or use "
            "dtype=torch.float64"
        )


def _warn_where_coarse(operator: Operator, dtype: torch.dtype) -> None:
    """Warn if rounding in the given `dtype` moves inputs by a share of a lengthscale that changes entries of K."""
    given, inputs = operator.given, operator.inputs
    eps = torch.finfo(dtype if dtype.is_floating_point else torch.float64).eps
    for shortest, columns in operator.kernel.shortest_scales(given.shape[1]):
        scale = shortest.to(given.device)
        by_given = eps * given[:, columns].abs().amax(0).double() / scale
        spans = (given[:, columns].amax(0).double() - given[:, columns].amin(0).double()) / scale
        by_dtype = torch.finfo(inputs.dtype).eps * spans / 2
        for place, column in enumerate(columns):
            first, second = float(by_given[place]), float(by_dtype[place])
            if max(first, second) < COARSE_LENGTHSCALES:
                continue
            if first >= second:
                why = f"they were given in {dtype}, and are up to {float(given[:, column].abs().max()):.3g}"
                exact = "" if eps == torch.finfo(torch.float64).eps else "give them in float64, or "
                advice = f"{exact}subtract a constant before they are rounded"
            else:
                why = f"they span {float(spans[place]):.1e} lengthscales"
                advice = "use dtype=torch.float64, or a larger lengthscale"
            merged = len(torch.unique(given, dim=0)) - len(torch.unique(inputs, dim=0))
            same = f"; {merged:,} of {len(given):,} rows are no longer distinct" if merged else ""
            warnings.warn(
                f"the values in column {column} of x are only accurate to {max(first, second):.2g} of a lengthscale, "
                f"because {why}{same}: {advice}",
                stacklevel=4,
            )
            return


def check_finite(values: Tensor, name: str) -> None:
    """Reject values: (n, p) with NaN or infinite ones; the message names the first such column and their number."""
    bad = ~torch.isfinite(values)
    if bad.any():
        per_column = bad.sum(0)
        column = int(per_column.nonzero()[0, 0])
        others = int((per_column > 0).sum()) - 1
        more = f", and {others} other columns have some too" if others else ""
        raise ValueError(
            f"{name} has {int(per_column[column])} NaN or infinite values in column {column}{more} "
            f"(in {values.dtype}); "
            "drop or impute these rows first"
        )
