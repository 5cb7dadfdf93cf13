"""Tables and sentences for printing."""
