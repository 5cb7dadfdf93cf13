"""An MLP's training step under data, tensor and pipeline parallelism, simulated visit by visit."""
