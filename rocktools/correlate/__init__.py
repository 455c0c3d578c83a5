"""Joins: what a row of one source is in another, with the method and how sure it is."""
