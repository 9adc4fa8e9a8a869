"""Does this belong to a class my model has never seen?"""
