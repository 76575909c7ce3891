"""Grids of speculative decoding methods, measured on your own machines."""
