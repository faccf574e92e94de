"""The claims of the papers, and the rules that compare each claim with measured tables."""
