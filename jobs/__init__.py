"""Scheduled runs of the pipeline."""
