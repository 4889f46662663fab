"""The growing record of one solve, in memory: arrays by group and variable, as the schema lays them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from apviz.tracing.schema import GROUPS, GROWING, Variable
from apviz.tracing.trace import Trace

#: (group, variable)
Key = tuple[str, str]


class Record:
    """Appends to growing variables, replaces the others.

    What is put together is kept or lost together: an interrupt at any moment leaves the variables of a group
    with one length, since a batch becomes part of the record in a single append.

    Attributes:
        attrs: root attributes.
        group_attrs: attributes of a group, by its name.
        variable_attrs: further attributes of a variable.
    """

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.attrs = attrs
        self.group_attrs: dict[str, dict[str, Any]] = {}
        self.variable_attrs: dict[Key, dict[str, Any]] = {}
        self._batches: list[dict[Key, np.ndarray]] = []

    def put(self, **groups: dict[str, Any]) -> None:
        """Appends to variables that grow, sets the others: `put(epoch={"work": [1.0], ...}, block={...})`."""
        self._batches.append(
            {
                (group, name): np.asarray(value).astype(variable_of((group, name)).dtype)
                for group, values in groups.items()
                for name, value in values.items()
            }
        )

    def values(self) -> dict[Key, np.ndarray]:
        """Every variable, whole."""
        if len(self._batches) > 1:
            parts: dict[Key, list[np.ndarray]] = {}
            for batch in self._batches:
                for key, value in batch.items():
                    parts[key] = [*parts.get(key, []), value] if grows(variable_of(key)) else [value]
            self._batches = [{k: p[0] if len(p) == 1 else np.concatenate(p) for k, p in parts.items()}]
        return self._batches[0] if self._batches else {}

    def length(self, key: Key) -> int:
        """How long a growing variable is."""
        return sum(len(batch[key]) for batch in self._batches if key in batch)

    def attributes(self, key: Key) -> dict[str, Any]:
        variable = variable_of(key)
        return {"long_name": variable.long_name, "units": variable.units, **self.variable_attrs.get(key, {})}

    def to_trace(self) -> Trace:
        nodes: dict[str, xr.Dataset] = {"/": xr.Dataset(attrs=dict(self.attrs))}
        values = self.values()
        for group in GROUPS:
            data = {
                name: (variable_of((group, name)).dims, value.copy(), self.attributes((group, name)))
                for (owner, name), value in values.items()
                if owner == group
            }
            if data:
                nodes[group] = xr.Dataset(data, attrs=self.group_attrs.get(group, {}))
        return Trace(xr.DataTree.from_dict(nodes))


def variable_of(key: Key) -> Variable:
    group, name = key
    return GROUPS[group][name]


def grows(variable: Variable) -> bool:
    return bool(variable.dims) and variable.dims[0] in GROWING
