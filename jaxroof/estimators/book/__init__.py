"""The rooflines of a book on scaling models (Austin et al. 2025), a file a chapter.

Records stand beside their equations; letters are those of docs/models/op_rooflines.md, whose
section each chapter names.
"""
