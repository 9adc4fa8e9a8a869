"""Methods to compare with, one file each, all behind the contract of ``contract.Baseline``."""
