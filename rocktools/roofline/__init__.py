"""Points and ceilings: what device work achieved, beside what the device could do. No drawing, no files, no HLO."""
