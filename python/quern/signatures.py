"""What inspect.signature() says of functions of the extension, which nanobind describes as text."""

import ast
import inspect
import re

from quern import _core


def _parsed(text: str, defaults) -> inspect.Signature:
    """Of "def f(self, axis: int = \\0) -> Tensor", where \\0 stands for the first of the defaults."""
    values = defaults or ()
    function = ast.parse(re.sub(r"\\(\d+)", r"_\1", text) + ": ...").body[0].args

    def default(node):
        return values[int(node.id[1:])] if isinstance(node, ast.Name) and re.fullmatch(r"_\d+", node.id) else ast.literal_eval(node)

    def parameter(given, kind, value=None):
        return inspect.Parameter(given.arg, kind, default=inspect.Parameter.empty if value is None else default(value),
                                 annotation=inspect.Parameter.empty if given.annotation is None else ast.unparse(given.annotation))

    positional = [*((a, inspect.Parameter.POSITIONAL_ONLY) for a in function.posonlyargs),
                  *((a, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a in function.args)]
    missing = [None] * (len(positional) - len(function.defaults))
    found = [parameter(a, kind, value) for (a, kind), value in zip(positional, [*missing, *function.defaults])]
    if function.vararg:
        found.append(parameter(function.vararg, inspect.Parameter.VAR_POSITIONAL))
    found += [parameter(a, inspect.Parameter.KEYWORD_ONLY, value) for a, value in zip(function.kwonlyargs, function.kw_defaults)]
    if function.kwarg:
        found.append(parameter(function.kwarg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(found)


def _of_function(function) -> inspect.Signature:
    """The way to call it; of several, the one that takes any number of arguments, or the first."""
    ways = [_parsed(text, defaults) for text, _, defaults in function.__nb_signature__]
    return next((way for way in ways if any(p.kind is p.VAR_POSITIONAL for p in way.parameters.values())), ways[0])


def _of_method(method) -> inspect.Signature:
    whole = _of_function(method.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


_core.add_attribute([type(_core.promote), type(_core.Tensor.relu)], "__signature__", property(_of_function))
_core.add_attribute([type(_core.DType("float32").vec)], "__signature__", property(_of_method))
