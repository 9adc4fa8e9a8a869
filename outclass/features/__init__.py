"""Representations of items: some the same in every fold, some (whitening, PCA) fitted to a fold's train items."""
