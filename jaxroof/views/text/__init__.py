"""Tables and sentences, printed."""
