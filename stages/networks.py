"""The network that params.yaml asks for."""

from outclass.networks.flat import FlatSettings
from outclass.networks.ridge import RidgeSettings
from stages.params import Backbone


def settings_of(chosen: Backbone) -> FlatSettings | RidgeSettings:
    if chosen.network == "flat":
        return FlatSettings(**chosen.flat.model_dump())
    return RidgeSettings(**chosen.ridge.model_dump())
