"""Finds an application by the name of its place, `module:app`."""

from __future__ import annotations

from importlib import import_module

from oncue.app import Oncue


def find_app(place: str) -> Oncue:
    """Raises LookupError, saying what is wrong with the place."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise LookupError(f"expected module:app, such as shop.jobs:app, not {place!r}")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise LookupError(f"there is no module {module_name!r}") from None
    app = getattr(module, name, None)
    if not isinstance(app, Oncue):
        raise LookupError(f"expected an Oncue application at {place}, not {app!r:.100}")
    return app
