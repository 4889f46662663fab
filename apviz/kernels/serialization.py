"""Kernels as plain values, as files keep them, and as they print themselves, as traces do."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from apviz.kernels.algebra import Kernel, On, Product, Scaled, Sum
from apviz.kernels.compact import PiecewisePolynomial, Spherical, White
from apviz.kernels.linear import Constant, Groups, Linear, Polynomial
from apviz.kernels.periodic import Cosine, Periodic, SpectralMixture
from apviz.kernels.stationary import KERNELS
from apviz.kernels.transformed import Transformed

#: more kernels in one another are not read
_MAX_DEPTH: Final = 32
_OTHERS: Final[dict[str, Callable[..., Kernel]]] = {
    kind.__name__: kind
    for kind in (
        Constant, Cosine, Groups, Linear, Periodic, PiecewisePolynomial, Polynomial, SpectralMixture, Spherical, White,
    )
}  # fmt: skip


def to_plain(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as nested plain values: its class and its numbers.

    Raises:
        ValueError: a kernel of a class that is not apviz's.
    """
    if isinstance(kernel, Sum | Product):
        return {"kernel": type(kernel).__name__, "of": [to_plain(each) for each in kernel.kernels]}
    if isinstance(kernel, Scaled):
        return {"kernel": "Scaled", "of": to_plain(kernel.kernel), "outputscale": kernel.outputscale}
    if isinstance(kernel, On):
        return {"kernel": "On", "of": to_plain(kernel.kernel), "columns": list(kernel.columns)}
    if isinstance(kernel, Transformed):
        return {"kernel": "Transformed", "of": to_plain(kernel.kernel), "matrix": [list(row) for row in kernel.matrix]}
    name = type(kernel).__name__
    if type(kernel) is not _leaves().get(name):
        raise ValueError(f"a kernel of the class {name} cannot be saved; apviz has {', '.join(_leaves())}")
    return {"kernel": name, **{field.name: getattr(kernel, field.name) for field in fields(kernel)}}


def from_plain(plain: Any, depth: int = 0) -> Kernel:
    """Read back what `to_plain` made.

    Raises:
        ValueError: an unknown class, or values that it does not take.
    """
    if not isinstance(plain, dict) or not isinstance(plain.get("kernel"), str) or depth > _MAX_DEPTH:
        raise ValueError(f"a kernel must be an object with the name of its class, it is {plain!r:.80}")
    values = {name: value for name, value in plain.items() if name != "kernel"}
    name, inner = plain["kernel"], values.pop("of", None)
    try:
        if name in ("Sum", "Product"):
            made = [from_plain(each, depth + 1) for each in inner or []]
            return Sum(*made, **values) if name == "Sum" else Product(*made, **values)
        if name == "Scaled":
            return Scaled(from_plain(inner, depth + 1), **values)
        if name == "On":
            return On(from_plain(inner, depth + 1), **values)
        if name == "Transformed":
            return Transformed(from_plain(inner, depth + 1), **values)
        if name in _leaves():
            return _leaves()[name](**values)
    except TypeError as error:
        raise ValueError(f"the kernel {name} cannot be read: {error}") from error
    raise ValueError(
        f"a kernel must be Sum, Product, Scaled, On, Transformed, {', '.join(_leaves())}, it is {name!r:.80}"
    )


def from_expression(text: str) -> Kernel:
    """Read a kernel as it prints itself; the text is not executed.

    Raises:
        ValueError: anything else, such as a class that is not apviz's.

    Examples:
        >>> import apviz
        >>> kernel = 2.0 * (apviz.RBF(lengthscale=0.3).on([0, 1]) + apviz.Linear().on(2))
        >>> apviz.kernels.from_expression(repr(kernel)) == kernel
        True
    """
    try:
        return _made_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r:.80} cannot be read as a kernel of apviz: {error}") from error


def _made_of(node: ast.expr) -> Kernel:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return Sum(_made_of(left), _made_of(right))
        case ast.BinOp(left=ast.Constant(value=float(scale)), op=ast.Mult(), right=right):
            return Scaled(_made_of(right), outputscale=scale)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return Product(_made_of(left), _made_of(right))
        case ast.Call(func=ast.Attribute(value=inner, attr="on"), args=[columns], keywords=[]):
            return On(_made_of(inner), ast.literal_eval(columns))
        case ast.Call(func=ast.Name(id="Transformed"), args=[inner, matrix], keywords=[]):
            return Transformed(_made_of(inner), ast.literal_eval(matrix))
        case ast.Call(func=ast.Name(id=name), args=[], keywords=values) if name in _leaves():
            # of ** the name is None, which no kernel takes
            return _leaves()[name](**{str(value.arg): ast.literal_eval(value.value) for value in values})
    raise ValueError(f"{ast.unparse(node)!r:.80} is neither a sum nor a product, nor one of {', '.join(_leaves())}")


def _leaves() -> dict[str, Callable[..., Kernel]]:
    return {kind.__name__: kind for kind in KERNELS.values()} | _OTHERS
