"""The fused operator: entries are evaluated in the registers of a GPU and used there, by Triton; none is stored.

Where the tiles in torch write every entry to memory some five times and read it as often, these kernels touch memory
for X, U and the result alone. `python -m benchmarks.roofline` counts their instructions per kernel entry.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from apviz.kernels import Formula, Gradients, Kernel
from apviz.operators.interface import Noise, Operator
from apviz.operators.layout import Rows
from apviz.operators.tiled import ByTiles, TiledOperator

#: a form's name, and the whole numbers of those that have some
Form = tuple[str, int, int]
FORMS = frozenset({
    "matern12", "matern32", "matern52", "rbf", "rational_quadratic", "inner_product", "equal", "power", "piecewise",
})  # fmt: skip
#: major and minor version
OLDEST_TRITON = (3, 5)
#: every part of a product is evaluated again for each of its derivatives
MAX_PARTS = 6
#: programs that fill the largest GPUs a few times over; in float64 a multiprocessor holds as few as two
PROGRAMS = {torch.float32: 512, torch.float64: 1024}
#: the fewest columns that are worth a program of their own
LEAST_COLUMNS = 512
#: rows on which it must be right before it is chosen, and the largest relative error allowed there
TRIED, TRUSTED = 300, {torch.float32: 1e-4, torch.float64: 1e-11}

log = logging.getLogger("apviz")


class Tile(NamedTuple):
    """Rows and columns of a tile, right-hand sides at once, warps of a program, and its kernel of `fused_kernels`.

    No loop spills a register: `tests/operators/test_fused_compiled.py` holds them to it.
    """

    rows: int
    columns: int
    sides: int
    warps: int
    kernel: str


#: products in float32: one right-hand side, up to 16, up to 32 at a time, and 16 before compute capability 9.0
VECTOR, NARROW = Tile(128, 32, 1, 4, "vector_kernel"), Tile(128, 64, 16, 4, "product_kernel")
WIDE, OLDER = Tile(128, 32, 32, 4, "product_kernel"), Tile(128, 32, 16, 4, "product_kernel")
#: products in float64, by right-hand sides
DOUBLE = tuple(Tile(256, 8, sides, 4, "double_kernel") for sides in (1, 4, 16))
#: products with compensated sums, which need more registers
COMPENSATED = Tile(64, 32, 16, 4, "compensated_kernel")
#: blocks, by dtype, and derivatives
FILL = {
    torch.float32: Tile(128, 32, 1, 4, "fill_kernel"), torch.float64: Tile(64, 32, 1, 4, "fill_kernel"),
}  # fmt: skip
GRADIENT = Tile(64, 64, 16, 8, "gradient_kernel")


class FusedOperator(ByTiles):
    """Evaluates K in Triton by direct differences, in float32 (products too: `input_precision="ieee"`) or float64.

    Any kernel of `apviz.kernels` but those of GPyTorch's own code, any d, any number of right-hand sides; beyond 32 of
    them entries are evaluated once for every 32 (16 before compute capability 9.0, and in float64). Sums are made in a
    fixed order: the same numbers every time. Derivatives in float64 are computed by torch tiles.

    Raises:
        ValueError: another dtype than float32 and float64; a kernel that it lacks; no GPU.
        ImportError: Triton is not installed, or older than 3.5.
    """

    name = "fused"
    precision: ClassVar[str] = "ieee"

    def __init__(self, x: Tensor, kernel: Kernel, noise: Noise, dtype: torch.dtype | None = None) -> None:
        if (dtype or x.dtype) not in TRUSTED:
            raise ValueError(
                f"operator 'fused' computes in float32 or float64, not {dtype or x.dtype}; use operator='tiled'"
            )
        if not is_installed():
            raise ImportError("operator 'fused' needs Triton 3.5: pip install 'apviz[gpu]', or use operator='tiled'")
        if x.device.type != "cuda" and not is_interpreted():
            raise ValueError(
                f"operator 'fused' is for GPUs, and the points are on {x.device.type}; use operator='tiled' "
                "(TRITON_INTERPRET=1 in the environment runs it anywhere, very slowly)"
            )
        super().__init__(x, kernel, noise, dtype)
        if not supports(self.formula):
            raise ValueError(
                f"operator 'fused' lacks {kernel.name}, or a kernel of more than {MAX_PARTS} parts; use 'tiled'"
            )
        functions = self.formula.functions
        self._structure: dict[str, Any] = {
            "FORMS": tuple(form_of(function.form) for function in functions),
            "PRODUCTS": tuple(function.of_product for function in functions),
            "STARTS": self.formula.starts, "TERMS": self.formula.terms,
        }  # fmt: skip
        self._numbers = torch.tensor([*self.formula.shapes, *self.formula.weights], dtype=self.x.dtype).to(x.device)
        self._transposed = self.inputs.T.contiguous()
        major, minor = torch.cuda.get_device_capability(x.device) if x.is_cuda else (9, 0)
        self._capability = 10 * major + minor

    @property
    def engine(self) -> str:
        import triton

        precision = self.precision if self.x.dtype == torch.float32 else "float64"
        how = "interpreted on the CPU" if is_interpreted() else "products in " + precision
        return f"Triton {triton.__version__}, {how}"

    def _features(self, rows: Tensor) -> Tensor:
        """(D, n) of features (n, D)."""
        return self._transposed if rows is self.inputs else rows.T.contiguous()

    def _inputs_of(self, rows: Rows) -> Tensor:
        return self.inputs[rows] if isinstance(rows, slice) else self._transposed.index_select(1, rows).T

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        (n, m), p = (len(rows), len(columns)), u.shape[1]
        if not (n and m and p):
            return
        tile = tile_of(p, self._capability, u.dtype)
        if m < tile.columns:  # `double_kernel` reads whole tiles
            columns, u = (pad(part, (0, 0, 0, tile.columns - m)) for part in (columns, u))
            m = tile.columns
        grid = (-(-n // tile.rows), -(-p // tile.sides))
        splits = max(1, min(PROGRAMS[u.dtype] // (grid[0] * grid[1]), m // LEAST_COLUMNS))
        each = -(-m // (splits * tile.columns)) * tile.columns
        splits = -(-m // each)
        parts = out.new_zeros(splits, n, p) if splits > 1 or not out.is_contiguous() else out[None]
        self._launch(
            (*grid, splits), tile, self._features(rows), self._features(columns), u.contiguous(), parts, self._numbers,
            n, m, p, each, P=tile.sides, PRECISION=self.precision,
        )  # fmt: skip
        if parts.data_ptr() != out.data_ptr():
            out += parts.sum(0)

    def _fill(self, rows: Tensor, columns: Tensor, out: Tensor | None = None) -> Tensor:
        (n, m), tile = (len(rows), len(columns)), FILL[rows.dtype]
        found = rows.new_empty(n, m) if out is None else out
        if n and m:
            grid = -(-n // tile.rows), -(-m // tile.columns)
            self._launch(grid, tile, self._features(rows), self._features(columns), found, self._numbers, n, m)
        return found

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        if rows.dtype != torch.float32:
            return super()._gradients(rows, columns, a, b)
        (n, d), parts, terms = rows.shape, len(self.formula.functions), len(self.formula.terms)
        programs = -(-n // GRADIENT.rows)
        features = torch.zeros(d, n, dtype=torch.float64, device=rows.device)
        sums = torch.zeros(programs, parts + terms, dtype=torch.float64, device=rows.device)
        if n and len(columns):
            self._launch(
                (programs,), GRADIENT,
                self._features(rows), self._features(columns), a.contiguous(), b.contiguous(), features, sums,
                self._numbers, n, len(columns), a.shape[1], P=GRADIENT.sides, PRECISION=self.precision,
            )  # fmt: skip
        total = sums.sum(0)
        return Gradients(features.T.contiguous(), total[:parts], total[parts:], total.new_zeros(0))

    def _launch(self, grid: tuple[int, ...], tile: Tile, *arguments: Any, **constants: Any) -> None:
        from apviz.operators import fused_kernels

        of_tile = {"BM": tile.rows, "BN": tile.columns, "num_warps": tile.warps, "enable_fp_fusion": True}
        if is_interpreted():
            del of_tile["num_warps"], of_tile["enable_fp_fusion"]
        getattr(fused_kernels, tile.kernel)[grid](*arguments, **self._structure, **constants, **of_tile)

    def in_dtype(self, dtype: torch.dtype) -> Operator:
        if dtype == self.x.dtype or is_trusted(self.given, self.kernel, self.noise_of(), dtype):
            return super().in_dtype(dtype)
        return TiledOperator(self.given, self.kernel, self.noise_of(), dtype)

    def exact(self) -> Operator:
        if is_trusted(self.given, self.kernel, self.noise_of(), torch.float64):
            return self.in_dtype(torch.float64)
        return super().exact()

    def compensated(self) -> CompensatedOperator:
        return CompensatedOperator(self.given, self.kernel, self.noise_of(), torch.float32)


class CompensatedOperator(FusedOperator):
    """Evaluates entries in float32 and sums products with float64 vectors in pairs of float32 numbers.

    The rounding of entries is left, `entry_rounding`; sums add nothing to it. A GPU with slow float64 evaluates B − KW
    so for claims of convergence (`certify="compensated"`).
    """

    def in_dtype(self, dtype: torch.dtype) -> Operator:
        return FusedOperator(self.given, self.kernel, self.noise_of(), self.x.dtype).in_dtype(dtype)

    def matmul(self, v: Tensor) -> Tensor:
        """Compute K v for v: (n, p) in float64, to (n, p) in float64. Evaluates n² entries."""
        if v.shape[:1] != (self.n,) or v.dtype != torch.float64 or v.device != self.x.device:
            raise ValueError(
                f"v must be ({self.n}, p) in float64 on {self.x.device}, got {tuple(v.shape)} in {v.dtype}"
            )
        high = v.float()
        halves = torch.cat([high, (v - high).float()], 1)  # the second holds the digits that float32 drops
        products = self._pair_sums(halves).sum(0)
        return self._noise_times(v) + products[:, : v.shape[1]] + products[:, v.shape[1] :]

    def _pair_sums(self, u: Tensor) -> Tensor:
        """Compute k(X, X) u as sums to be added in float64, (2 · splits, n, p)."""
        n, p, tile = self.n, u.shape[1], COMPENSATED
        features, width = self._transposed, max(n, tile.columns)
        if width > n:  # u is padded with zeros, so the entries of padded columns count nothing
            features, u = pad(features, (0, width - n)), pad(u, (0, 0, 0, width - n))
        grid = (-(-n // tile.rows), -(-p // tile.sides))
        splits = max(1, min(PROGRAMS[u.dtype] // (grid[0] * grid[1]), width // LEAST_COLUMNS))
        each = -(-width // (splits * tile.columns)) * tile.columns
        splits = -(-width // each)
        parts = u.new_zeros(2 * splits, n, p)
        self._launch(
            (*grid, splits), tile, self._transposed, features, u.contiguous(), parts, self._numbers,
            n, width, p, each, P=tile.sides, PRECISION=self.precision,
        )  # fmt: skip
        return parts.double()


class FusedTF32Operator(FusedOperator):
    """The same with products on tensor cores, each of three TF32 ones.

    K is evaluated as by `FusedOperator`; only K U is rounded so, which by the formats loses about 2⁻²¹ of the numbers.
    """

    name = "fused-tf32x3"
    precision = "tf32x3"


def is_trusted(x: Tensor, kernel: Kernel, noise: Noise, dtype: torch.dtype | None = None) -> bool:
    """Tests whether the fused engine has a kernel, and is right on this machine: on some rows, in float64.

    Products, a block and derivatives are held to it, once for each form of kernel, number of features, device and
    dtype. Where the engine cannot be used the answer is no; where it is wrong or fails, it is no with a warning.
    """
    if not is_installed():
        return False
    few = slice(0, TRIED)
    try:
        operator = FusedOperator(x[few], kernel, noise[few] if isinstance(noise, Tensor) else noise, dtype)
    except ValueError:  # of another dtype, or a kernel that it lacks
        return False
    key = operator.formula.structure, operator.formula.starts, x.device, operator.x.dtype
    if key not in _trusted:
        _trusted[key] = _is_right(operator)
    return _trusted[key]


_trusted: dict[Any, bool] = {}


def _is_right(operator: FusedOperator) -> bool:
    try:
        error = _error(operator)
    except Exception as failed:  # a compiler, a driver: whatever it is, there is another engine
        log.warning("the fused engine failed on this machine, and 'tiled' is used: %s", failed)
        return False
    is_right = error < TRUSTED[operator.x.dtype]
    if not is_right:
        log.warning("the fused engine errs by %.1e on this machine, and 'tiled' is used: please report it", error)
    return is_right


def _error(operator: FusedOperator) -> float:
    """The largest of products, a block and derivatives in the inputs, over the largest number of each."""
    exact_one, generator = ByTiles.exact(operator), torch.Generator().manual_seed(0)
    v, w = (torch.randn(operator.n, 5, generator=generator).to(operator.x) for _ in range(2))
    block = slice(0, min(operator.n, FILL[torch.float32].rows))
    pairs = [
        (operator.matmul(v), exact_one.matmul(v.double())),
        (operator.matmul(v[:, :1].contiguous()), exact_one.matmul(v[:, :1].double())),
        (operator.block(block), exact_one.block(block)),
        (
            operator._gradients(operator.inputs, operator.inputs, v, w).features,
            exact_one._gradients(exact_one.inputs, exact_one.inputs, v.double(), w.double()).features,
        ),
    ]  # fmt: skip
    return max(float((found.double() - true).abs().max() / true.abs().max()) for found, true in pairs)


def tile_of(sides: int, capability: int, dtype: torch.dtype = torch.float32) -> Tile:
    """Return the tile of products with `sides` right-hand sides on a GPU of compute capability 80, 90, …."""
    if dtype == torch.float64:
        return next((tile for tile in DOUBLE if sides <= tile.sides), DOUBLE[-1])
    if sides == 1:
        return VECTOR
    if capability < 90:
        return OLDER
    return NARROW if sides <= NARROW.sides else WIDE


def form_of(form: str) -> Form:
    """Split the name of a form from its whole numbers: `piecewise<1, 3>` to ("piecewise", 1, 3)."""
    name, *numbers = re.findall(r"\w+", form)
    a, b = (*(int(number) for number in numbers), 0, 0)[:2]
    return name, a, b


def supports(formula: Formula) -> bool:
    """Tests whether the kernels here have all parts of a kernel."""
    names = [function.form and form_of(function.form)[0] for function in formula.functions]
    return len(names) <= MAX_PARTS and all(name in FORMS for name in names)


def is_installed() -> bool:
    """Tests whether Triton is, with what the kernels use: older ones come with PyTorch before 2.9."""
    if importlib.util.find_spec("triton") is None:
        return False
    import triton

    return tuple(int(part) for part in triton.__version__.split(".")[:2]) >= OLDEST_TRITON


def is_interpreted() -> bool:
    """Tests whether Triton runs kernels on the CPU, as TRITON_INTERPRET=1 asks for before its import."""
    from triton import knobs

    return bool(knobs.runtime.interpret)
