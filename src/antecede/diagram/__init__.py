"""Space-time diagrams of runs, as SVG."""
