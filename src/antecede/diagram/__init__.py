"""Space-time diagrams: draw a run as SVG."""
