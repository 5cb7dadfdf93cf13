"""An MLP's training step under data, tensor and pipeline parallelism, simulated visit by visit.

Source: Santhanam et al. 2021, DistIR (arXiv 2111.05426) and its code; docs/models/distir_model.md.
"""
