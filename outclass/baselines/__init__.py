"""Methods to compare with, one file each, all behind the contract of ``contract.Baseline``.

Scikit-learn, and scipy's packages, are loaded where a method uses them: every stage looks names and hyper-parameters
up here, to check params.yaml, and few run a method.
"""
