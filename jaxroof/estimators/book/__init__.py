"""The rooflines of How to Scale Your Model (Austin et al. 2025), a file a chapter.

https://jax-ml.github.io/scaling-book/

Records stand beside their equations; letters are those of docs/models/op_rooflines.md, whose
section each chapter names.
"""
