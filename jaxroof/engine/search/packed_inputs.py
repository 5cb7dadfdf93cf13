"""Inputs as few arrays, for compiled programs: every array of a call costs host time."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

Array = Any  # a NumPy array on the host, a JAX array on the devices


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["numbers", "columns"],
    meta_fields=["whole", "single"],
)
@dataclasses.dataclass(frozen=True)
class PackedInputs:
    """Inputs whose plain numbers are one array."""

    numbers: Array  # values of the leaves without dimensions [number]
    columns: list[Array]  # the other leaves
    whole: Any  # the structure of the inputs
    single: tuple[bool, ...]  # whether each leaf has no dimensions

    @classmethod
    def of(cls, inputs: Any) -> "PackedInputs":
        """Return the inputs with their plain numbers as one array."""
        leaves, whole = jax.tree.flatten(inputs)
        single = tuple(np.ndim(leaf) == 0 for leaf in leaves)
        numbers = [leaf for leaf, plain in zip(leaves, single, strict=True) if plain]
        columns = [leaf for leaf, plain in zip(leaves, single, strict=True) if not plain]
        return cls(np.array(numbers, np.float64), columns, whole, single)

    def inputs(self) -> Any:
        """Return the inputs."""
        numbers, columns = iter(self.numbers), iter(self.columns)
        leaves = [next(numbers if plain else columns) for plain in self.single]
        return jax.tree.unflatten(self.whole, leaves)
