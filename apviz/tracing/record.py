"""The growing record of one solve, in memory: arrays by group and variable, as the schema lays them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from apviz.tracing.schema import GROUPS, GROWING, Variable
from apviz.tracing.trace import Trace


class Record:
    """Appends to growing variables, replaces the others.

    Attributes:
        attrs: root attributes.
        group_attrs: attributes of a group, by its name.
        variable_attrs: further attributes of a variable, by (group, name).
        values: arrays by (group, name), whole.
    """

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.attrs = attrs
        self.group_attrs: dict[str, dict[str, Any]] = {}
        self.variable_attrs: dict[tuple[str, str], dict[str, Any]] = {}
        self._chunks: dict[tuple[str, str], list[np.ndarray]] = {}

    def put(self, group: str, **values: Any) -> None:
        """Appends to variables of `group` that grow, sets the others."""
        for name, value in values.items():
            variable = variable_of(group, name)
            array = np.asarray(value, dtype=variable.dtype)
            if grows(variable):
                self._chunks.setdefault((group, name), []).append(array)
            else:
                self._chunks[group, name] = [array]

    def value(self, key: tuple[str, str]) -> np.ndarray:
        chunks = self._chunks[key]
        if len(chunks) > 1:  # joined once, so that reading often stays cheap
            self._chunks[key] = chunks = [np.concatenate(chunks)]
        return chunks[0]

    def keys(self) -> list[tuple[str, str]]:
        return list(self._chunks)

    def attributes(self, key: tuple[str, str]) -> dict[str, Any]:
        variable = variable_of(*key)
        return {"long_name": variable.long_name, "units": variable.units, **self.variable_attrs.get(key, {})}

    def to_trace(self) -> Trace:
        groups: dict[str, xr.Dataset] = {"/": xr.Dataset(attrs=dict(self.attrs))}
        for group in GROUPS:
            data = {
                name: (variable_of(group, name).dims, self.value((group, name)).copy(), self.attributes((group, name)))
                for owner, name in self.keys()
                if owner == group
            }
            if data:
                groups[group] = xr.Dataset(data, attrs=self.group_attrs.get(group, {}))
        return Trace(xr.DataTree.from_dict(groups))


def variable_of(group: str, name: str) -> Variable:
    return GROUPS[group][name]


def grows(variable: Variable) -> bool:
    return bool(variable.dims) and variable.dims[0] in GROWING
