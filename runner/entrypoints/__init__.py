"""Doors: the command line."""
