"""What the user can mend: the exception that says how, and a fault of the data on its own."""

from typing import NamedTuple


class OutclassError(Exception):
    """Its text names the file, parameter or class at fault and what to do about it."""


class Fault(NamedTuple):
    """Why something of a source cannot be used."""

    name: str  # of the item; "" for a class as a whole
    label: str  # its class; "" where there is none
    reason: str
