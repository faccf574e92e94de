"""Fuzz targets; ``make fuzz`` runs them."""
