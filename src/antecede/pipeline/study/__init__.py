"""Studies: read a study file, simulate its cells, verify them, measure them."""
