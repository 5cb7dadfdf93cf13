"""Few constants of a chip, fitted to measured steps of one's own."""
