"""Counting floating-point operations: every tensor operation that runs is seen, and put down to who asked for it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

#: whoever is not in the table of callers
OTHER: Final = "other"

# one flop per element of the result, or of the argument
_ELEMENTWISE: Final = frozenset(("add", "sub", "rsub", "mul", "div", "reciprocal", "sqrt", "rsqrt", "pow", "exp"))
_REDUCTIONS: Final = frozenset(("sum", "mean"))
# signs and comparisons, copies, new arrays, views
_FREE: Final = frozenset((
    "neg", "abs", "clamp", "clamp_min", "argmax", "argmin", "amax", "amin", "aminmax", "max", "min", "sort", "eq",
    "ne", "lt", "gt", "le", "ge", "equal", "where", "any", "all", "isfinite", "nonzero", "bincount", "clone", "copy",
    "_to_copy", "detach", "fill", "empty", "empty_like", "empty_strided", "new_empty", "new_zeros", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "scalar_tensor", "arange", "eye", "lift_fresh", "slice",
    "select", "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "alias", "expand", "permute", "t",
    "transpose", "unsqueeze", "squeeze", "frexp", "ldexp", "diagonal", "unbind", "split", "cat", "stack", "index",
    "index_select", "index_put", "_local_scalar_dense",
))  # fmt: skip


class FlopCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts flops while it is active: one for each +, −, ×, ÷, √ and exp of two numbers, or one; none for copies,
    comparisons and changes of sign.

    Products, triangular solves and Cholesky factors count by their shapes: 2mkn for (m, k) times (k, n), b²p for a
    triangle (b, b) and p columns, b³/3 for a factor. Compiled engines call no tensor operations and go unseen.

    Args:
        callers: the qualified name of a function → what it does. Operations go to the outermost of these functions.
        always: the same for functions that answer for what runs inside them, whoever called them.

    Attributes:
        flops: by what is done; `OTHER` where no caller is known.
        largest: the elements of the largest result, by what is done.
        unknown: operations it cannot count; if there are any, the count is not complete.
    """

    def __init__(self, callers: Mapping[str, str], always: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.callers, self.always = callers, always
        self.flops: Counter[str] = Counter()
        self.largest: dict[str, int] = {}
        self.unknown: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        doing = self._doing()
        self.flops[doing] += self._count(func.overloadpacket.__name__.rstrip("_"), args, kwargs, result)
        if isinstance(result, Tensor):
            self.largest[doing] = max(self.largest.get(doing, 0), result.numel())
        return result

    def _doing(self) -> str:
        """What the operation is for, from the stack."""
        found, frame = OTHER, sys._getframe(2)
        while frame is not None:
            name = frame.f_code.co_qualname
            if name in self.always:
                return self.always[name]
            found = self.callers.get(name, found)
            frame = frame.f_back  # type: ignore[assignment]
        return found

    def _count(self, name: str, args: Any, kwargs: Any, result: Any) -> int:
        """The flops of one operation."""
        if name in ("mm", "bmm"):
            return 2 * int(args[0].numel()) * int(args[1].shape[-1])
        if name in ("addmm", "baddbmm"):  # the sum is among the additions of the product
            return 2 * int(args[1].numel()) * int(args[2].shape[-1])
        if name == "linalg_cholesky_ex":
            return int(args[0].numel()) * int(args[0].shape[-1]) // 3
        if name == "linalg_solve_triangular":
            return int(args[0].numel()) * int(args[1].shape[-1])
        if name in ("addcmul", "linalg_vector_norm"):
            return 2 * int(args[0].numel())
        if name == "index_add":
            return int(args[3].numel())
        if name in _ELEMENTWISE:
            scaled = kwargs.get("alpha", 1) not in (1, -1)
            return int(result.numel()) * (2 if scaled else 1)
        if name in _REDUCTIONS:
            return int(args[0].numel())
        if name not in _FREE:
            self.unknown.add(name)
        return 0
