"""Plugins as text: `metrics:port=9100,host=::1,trace:file=out.json` names two plugins and three options.

Parts are separated by commas. `NAME` or `NAME:OPTION=VALUE` begins a plugin; `OPTION=VALUE` is a further option of the
plugin before it. So a value may contain anything but a comma, colons and equals signs included: the first `=` of a
part ends the option's name.

The signature of the class or function that creates a plugin says which options it accepts. A parameter gets a string,
unless it is annotated as int, float, bool or pathlib.Path, or as one of these or None; a parameter of another type
cannot be given as text. `**options` takes the remaining options, as strings.

Errors: UsageError, naming the plugin, the option, and what is accepted.
"""

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin

from loopcore.errors import UsageError
from loopcore.text import did_you_mean

Wish: TypeAlias = tuple[str, dict[str, str]]
"""The name of a plugin, and its options as text."""

TRUTHS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def parse_wishes(text: str) -> list[Wish]:
    """Return the plugins that `text` names, in that order; a repetition with the same options is dropped."""
    wishes: list[Wish] = []
    for part in filter(None, map(str.strip, text.split(","))):
        head, colon, option = part.partition(":")
        if "=" in head:
            if not wishes:
                raise UsageError(f"{part!r} is an option, but of which plugin? write NAME:{part}")
            _add_option(wishes[-1], part)
        else:
            wishes.append((head.strip(), {}))
            if colon:
                _add_option(wishes[-1], option)
    return _once_each(wishes)


class Option(NamedTuple):
    """An option of a plugin, for a list; `default` is as in Python, or empty if the option is required."""

    option: str
    type: str
    default: str


def options_of(who: str, factory: object) -> list[Option]:
    """Return the options that can be given as text; `who` names the plugin in errors. An object has none."""
    if not callable(factory):
        return []
    return [
        Option(name, _name_of(kind), _default_of(each))
        for name, each in _parameters(who, factory).items()
        if _converter_of(kind := _kind_of(each)) is not None
    ]


def _default_of(parameter: Parameter) -> str:
    if parameter.default is Parameter.empty:
        return ""
    return str(parameter.default) if isinstance(parameter.default, Path) else repr(parameter.default)


def convert_options(who: str, factory: Callable[..., Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Return `options` as the keyword arguments of `factory`; `who` names the plugin in errors."""
    accepted = _parameters(who, factory) if options else {}
    arguments = {option: _convert(who, accepted, option, text) for option, text in options.items()}
    _check_complete(who, factory, arguments)
    return arguments


def _add_option(wish: Wish, text: str) -> None:
    name, options = wish
    option, equals, value = (piece.strip() for piece in text.partition("="))
    if not option or not equals:
        lack = f"option {option!r} has no value" if option else f"{text!r} names no option"
        write = f"{name}:{option or 'OPTION'}=VALUE"
        raise UsageError(
            f"plugin {name!r}: {lack}; write {write}, or {name} alone; `loopcore plugins {name}` lists its options"
        )
    if option in options:
        raise UsageError(f"plugin {name!r}: option {option!r} is given twice")
    options[option] = value


def _once_each(wishes: list[Wish]) -> list[Wish]:
    found: dict[str, dict[str, str]] = {}
    for name, options in wishes:
        if found.setdefault(name, options) != options:
            raise UsageError(f"plugin {name!r} is named twice, with different options; name it once")
    return list(found.items())


def _parameters(who: str, factory: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters that `factory` takes by keyword, by name; `**options` has the name `**`."""
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except Exception as exc:  # a builtin without a signature, or annotations with undefined names
        raise UsageError(f"{who}: its options cannot be read: {type(exc).__name__}: {exc}") from exc
    names = {Parameter.POSITIONAL_OR_KEYWORD: "{}", Parameter.KEYWORD_ONLY: "{}", Parameter.VAR_KEYWORD: "**"}
    return {names[each.kind].format(each.name): each for each in parameters if each.kind in names}


def _check_complete(who: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # a builtin without a signature; the call itself will check
    try:
        signature.bind(**arguments)
    except TypeError as exc:
        raise UsageError(f"{who}: {exc}") from None


def _convert(who: str, accepted: Mapping[str, Parameter], option: str, text: str) -> Any:
    parameter = accepted.get(option, accepted.get("**"))
    if parameter is None:
        hint = did_you_mean(option, accepted)
        raise UsageError(f"{who} has no option {option!r}{hint}; it accepts {_describe(accepted)}")
    kind = _kind_of(parameter)
    convert = _converter_of(kind)
    if convert is None:
        raise UsageError(
            f"{who}: option {option!r} is a {_name_of(kind)}, which cannot be given as text; "
            "create the plugin in the program"
        )
    try:
        return convert(text)
    except (ValueError, KeyError):
        raise UsageError(f"{who}: option {option!r} takes {_name_of(kind)}, not {text!r}") from None


def _kind_of(parameter: Parameter) -> Any:
    """Return the type that a parameter is annotated with, without `| None`; `str` if there is no annotation."""
    annotation = parameter.annotation
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        if len(kinds) == 1:
            return kinds[0]
    return str if annotation in (Parameter.empty, Any, object) else annotation


def _name_of(kind: object) -> str:
    return "bool (yes or no)" if kind is bool else str(getattr(kind, "__name__", kind))


def _describe(accepted: Mapping[str, Parameter]) -> str:
    kinds = {name: _kind_of(parameter) for name, parameter in accepted.items()}
    return ", ".join(f"{name}={_name_of(kind)}" for name, kind in kinds.items() if _converter_of(kind)) or "no options"


def _converter_of(kind: Any) -> Callable[[str], Any] | None:
    if kind is bool:
        return _truth
    return kind if kind in (str, int, float, Path) else None


def _truth(text: str) -> bool:
    return TRUTHS[text.lower()]
