"""Covariances made of a batch of kernels: their sum over the batch, and independent outputs, one from each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from apviz.gpytorch.kernels import Member
from apviz.kernels import Groups, Kernel


def parts_of(covariance: Any, member: Member) -> Iterator[tuple[Any, Member]]:
    """Yield the batched covariance below a block operator with each place in its last batch dimension.

    Args:
        covariance: of (*batch, k, n, n), summed or interleaved over k.
        member: the model of a batch that is read.
    """
    blocks = covariance.base_linear_op.shape[-3]
    for block in range(blocks):
        yield covariance.base_linear_op, Member(torch.Size((*member.batch, blocks)), (*member.index, block))


def of_output(
    x: Tensor, kernel: Kernel, tensors: tuple[Tensor, ...], output: int, outputs: int
) -> tuple[Tensor, Kernel, tuple[Tensor, ...]]:
    """Restrict a kernel to one of several independent outputs, whose rows are side by side.

    Returns:
        (n · outputs, d + 1) inputs with the output's number in the last column; the kernel there, which is 0 for all
        other outputs; and its tensors.
    """
    (n, d), of_output = x.shape, torch.eye(outputs, dtype=torch.float64)[output]
    which = torch.arange(outputs).repeat(n).to(x)
    rows = torch.cat([x.repeat_interleave(outputs, 0), which[:, None]], 1)
    table = Groups(factor=of_output[:, None], variances=[0.0] * outputs)
    constants = torch.ones(1, dtype=torch.float64), of_output, torch.zeros(outputs, dtype=torch.float64)
    return rows, kernel.on(range(d)) * table.on(d), (*tensors, *constants)
