"""Classifiers that give each item its vector of class activities u."""
