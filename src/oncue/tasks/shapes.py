"""The types of a function's parameters, as pydantic checks them and writes them as JSON.

A module of its own, imported when the first arguments are checked: a command that only looks at jobs needs no pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NotRequired, cast, get_type_hints

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from oncue.engine.outcomes import refuse_nan
from oncue.errors import InvalidJob


class Shape:
    """The arguments of one function: its parameters with their types, and whether each may be left out."""

    def __init__(self, function: Callable[..., Any], name: str, optional: Mapping[str, bool]) -> None:
        try:
            hints = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise InvalidJob("arguments", f"a type hint of {name} cannot be resolved: {error}") from error
        fields = {each: _field(hints.get(each, Any), may_miss) for each, may_miss in optional.items()}
        make_shape: Any = TypedDict
        shape = make_shape(name, fields)
        shape.__pydantic_config__ = ConfigDict(allow_inf_nan=False, extra="forbid", arbitrary_types_allowed=False)
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(shape)
        except PydanticSchemaGenerationError as error:
            raise InvalidJob("arguments", f"a type hint of {name} has no JSON form: {error}") from error

    def dump(self, named: Mapping[str, Any]) -> bytes:
        """Arguments as JSON. Raises InvalidJob, naming the argument, if they do not fit."""
        try:
            checked = self._adapter.validate_python(named)
        except ValidationError as error:
            raise _refused(error) from None
        try:
            return self._json(checked)
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidJob(self._culprit(checked), f"cannot be written as JSON: {error}") from None

    def load(self, text: str) -> dict[str, Any]:
        return cast(dict[str, Any], self._adapter.validate_json(text))

    def _json(self, checked: dict[str, Any]) -> bytes:
        text = self._adapter.dump_json(checked, by_alias=False)
        refuse_nan(checked, text)  # inside of `Any` or of a model; the handler would get None
        return text

    def _culprit(self, checked: dict[str, Any]) -> str:
        """The argument that cannot be written."""
        for name, value in checked.items():
            try:
                self._json({name: value})
            except (PydanticSerializationError, ValueError):
                return name
        return "arguments"


def takes(hint: Any, value: datetime) -> bool:
    """Whether a parameter of this type takes this value. One whose type cannot be worked out yet may."""
    try:
        TypeAdapter(hint).validate_python(value)
    except Exception as error:
        return not isinstance(error, ValidationError)
    return True


def _field(hint: Any, may_miss: bool) -> Any:
    return NotRequired[hint] if may_miss else hint


def _refused(error: ValidationError) -> InvalidJob:
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "arguments"
    return InvalidJob(place, f"{first['msg']}, not {first['input']!r:.100}")
