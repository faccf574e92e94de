"""The data pipeline on Spark: simulate a grid, verify everything, measure."""
