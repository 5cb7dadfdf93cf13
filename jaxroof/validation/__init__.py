"""Times that others measured, and what our formulas say of them."""
