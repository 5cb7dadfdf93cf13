"""The whole training run: days, dollars and energy of steps, with what interrupts them."""
