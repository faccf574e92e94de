"""Speed and size, measured side by side in one run and printed as ratios."""
