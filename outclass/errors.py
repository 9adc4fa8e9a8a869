"""The one exception that means: the user can mend this, and the message says how."""


class OutclassError(Exception):
    """Its text names the file, parameter or class at fault and what to do about it."""
