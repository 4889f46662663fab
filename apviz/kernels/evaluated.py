"""Kernels that somebody else's code evaluates, in torch: of any pairs of inputs, with its parameters by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from apviz.kernels.algebra import Hyperparameter, Kernel, check_names
from apviz.kernels.formula import Lowered, Part
from apviz.kernels.functions import Function

#: k(x, z) of inputs (n, d), (m, d), with the values of parameters by name, to (n, m); differentiable in all of them
Entries = Callable[[Tensor, Tensor, Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True, repr=False)
class Evaluated(Kernel):
    """A kernel that a function evaluates in torch; no engine compiles it, and its derivatives are autograd's.

    Args:
        entries: k(x, z), of two sets of inputs and the parameters by name; each entry depends on its two rows alone.
        parameters: their values, by name, flat.
        shapes: of the parameters as `entries` takes them.
        title: what it is called.

    Raises:
        ValueError: other names in `shapes` than in `parameters`.

    Examples:
        >>> import torch, apviz
        >>> from apviz.kernels import Evaluated
        >>> def arc(x, z, values):
        ...     return values["scale"] * torch.exp(torch.cos(x - z.T))
        >>> kernel = Evaluated(arc, {"scale": (2.0,)}, {"scale": (1,)}, "Arc")
        >>> x = torch.linspace(0, 3, 4, dtype=torch.float64)[:, None]
        >>> torch.equal(kernel(x), 2.0 * torch.exp(torch.cos(x - x.T)))
        True
    """

    entries: Entries
    parameters: Mapping[str, tuple[float, ...]] = field(hash=False)
    shapes: Mapping[str, tuple[int, ...]] = field(hash=False)
    title: str = "evaluated"

    def __post_init__(self) -> None:
        if list(self.parameters) != list(self.shapes):
            raise ValueError(
                f"parameters and shapes must have the same names, got {list(self.parameters)} and {list(self.shapes)}"
            )

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        at = at or {}
        values = {
            name: at[name].double() if name in at else torch.tensor(given, dtype=torch.float64)
            for name, given in self.parameters.items()
        }
        numbers = torch.cat([each.reshape(-1) for each in values.values()]) if values else torch.empty(0).double()
        function = _OfPairs(self.entries, dict(self.shapes), numbers.detach())
        # features are the inputs as they are: the function may be of their absolute place
        part = Part(function, lambda x, centre: x, numbers=numbers)
        return Lowered((part,), ((0,),), (torch.ones((), dtype=torch.float64),))

    @property
    def is_evaluated(self) -> bool:
        return True

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        return dict(self.parameters)

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        check_names(self, values)
        given = {name: (v,) if isinstance(v, float) else tuple(v) for name, v in values.items()}
        return type(self)(self.entries, {**self.parameters, **given}, self.shapes, self.title)

    def __repr__(self) -> str:
        return self.title


class _OfPairs(Function):
    """The function of two rows itself, instead of one of their distance.

    Args:
        numbers: (p,) float64, all parameters, one after the other.
    """

    of_pairs: ClassVar[bool] = True
    has_kink: ClassVar[bool] = True  # what is not known is not taken from matrix products

    def __init__(self, entries: Entries, shapes: Mapping[str, tuple[int, ...]], numbers: Tensor) -> None:
        self._entries, self._shapes, self._numbers = entries, shapes, numbers

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        with torch.no_grad():
            return self._evaluated(left, right, self._numbers)

    def differentiable_between(self, left: Tensor, right: Tensor) -> Tensor:
        return self._of_two_sides(left, right, self._numbers)

    def of_each(self, rows: Tensor) -> Tensor:
        # pairs of a few rows at a time, of which the diagonal is taken: few functions give it alone
        return torch.cat([self.between(some, some).diagonal() for some in torch.split(rows, 64)])

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.clone()  # it is overwritten, and may be what the function keeps

    def slope(self, u: Tensor) -> Tensor:
        return torch.ones_like(u)

    def pair_gradients(self, left: Tensor, right: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        same = left is right
        with torch.enable_grad():
            rows = left.detach().requires_grad_()
            numbers = self._numbers.to(left.device).requires_grad_()
            total = torch.sum(m * self._of_two_sides(rows, rows if same else right, numbers), dtype=torch.float64)
            wanted = rows, numbers
            by_rows, by_numbers = torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)
        # the total derivative of a symmetric form is twice that in its left side
        return by_rows.double() * (0.5 if same else 1.0), by_numbers.double()

    def _of_two_sides(self, left: Tensor, right: Tensor, numbers: Tensor) -> Tensor:
        """Evaluate f for autograd, whatever its code does where both sides are equal (`torch.equal(x, z)`).

        There it may compute the right side's features from the left side's tensor, so that autograd finds the
        derivatives of both sides in one of them. Two different sides therefore never look equal: one gets another row.
        """
        if left is right:
            return self._evaluated(left, right, numbers)
        return self._evaluated(left, torch.cat([right, right[-1:]]), numbers)[:, : len(right)]

    def _evaluated(self, left: Tensor, right: Tensor, numbers: Tensor) -> Tensor:
        sizes = [torch.Size(shape).numel() for shape in self._shapes.values()]
        pieces = torch.split(numbers.to(left), sizes) if sizes else ()
        pairs = zip(self._shapes.items(), pieces, strict=True)
        values = {name: piece.reshape(shape) for (name, shape), piece in pairs}
        return self._entries(left, right, values).to(left)
