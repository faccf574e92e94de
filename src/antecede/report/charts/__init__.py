"""Charts of the report: which figures a study gets, and their Vega-Lite specifications."""
