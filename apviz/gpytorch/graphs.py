"""Comparison of the graphs of tensors: equal values do not share a gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def is_one(x: Tensor, z: Tensor) -> bool:
    """Test whether two tensors have equal values, computed from the same tensors in the same way.

    Features of two networks may be equal before the first step, such as zeros, and have gradients of their own.
    """
    return x is z or (torch.equal(x, z) and _same(_node(x), _node(z)))


def leaves(x: Tensor) -> set[int]:
    """Return the identities of the leaf tensors on whose gradient x has an effect."""
    found, seen, waiting = set[int](), dict[int, Any](), [_node(x)]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node  # kept, so that no other node gets its identity
        if isinstance(node, Tensor):
            found.add(id(node))
        elif hasattr(node, "variable"):
            found.add(id(node.variable))
        else:
            waiting += [each for each, _ in node.next_functions]
    return found


def _node(x: Tensor) -> Any:
    """Return the node of the graph that made a tensor: the tensor itself for a leaf, None without a gradient."""
    return x.grad_fn if x.grad_fn is not None else x if x.requires_grad else None


def _same(one: Any, other: Any) -> bool:
    """Test whether two nodes are one, or the same operation on the same nodes."""
    if one is other:
        return True
    if one is None or other is None or type(one) is not type(other) or isinstance(one, Tensor):
        return False
    if hasattr(one, "variable"):
        return one.variable is other.variable
    before = one.next_functions, other.next_functions
    return (
        len(before[0]) == len(before[1])
        and _same_settings(one, other)
        and all(i == j and _same(a, b) for (a, i), (b, j) in zip(*before, strict=True))
    )


def _same_settings(one: Any, other: Any) -> bool:
    """Test whether two nodes have the same saved values, such as the index of a selection."""
    names = [name for name in dir(one) if name.startswith("_saved_")]
    try:
        return all(_equal(getattr(one, name), getattr(other, name)) for name in names)
    except RuntimeError:  # freed by a backward pass
        return False


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other or (one.shape == other.shape and torch.equal(one, other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
