"""Peaks of devices: data with sources, one file per part, and what reads, finds and overrides them."""
