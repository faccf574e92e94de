"""Benchmarks that compare two measurements of one run and print their ratio."""
