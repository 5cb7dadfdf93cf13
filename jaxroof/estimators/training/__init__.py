"""A transformer training step on many accelerators: its time, its memory and its legal plans."""

from jaxroof.estimators.training.step import training

__all__ = ["training"]
