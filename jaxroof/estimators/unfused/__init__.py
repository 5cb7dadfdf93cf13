"""One transformer layer as two tables of operators, each alone: nothing fused, nothing hidden."""
