"""Converters of other people's tables of measured runs into the rows that travel with jaxroof."""
