"""Representations of items that are the same in every fold."""
