"""The tensors of a model, by name; and files of them."""

import io
import json
import os
import pathlib
from collections.abc import Mapping

from quern._core import (
    Error,
    ShapeError,
    Tensor,
    gguf_load,
    npy_load,
    npy_save,
    npz_load,
    safe_load as _safe_load,
    safe_load_metadata,
    safe_save,
    torch_load,
    shown,
)


def get_state_dict(obj, prefix: str = "", tensor_type=Tensor) -> dict[str, Tensor]:
    """All tensors in the attributes of an object, in lists, tuples and dictionaries of them, by name: "layers.0.weight".
    prefix stands before each name as it is."""
    found = {}
    waiting, above = [(prefix, obj, ())], None
    while waiting:
        name, value, above = waiting.pop()
        if isinstance(value, tensor_type):
            found[name.strip(".")] = value
            continue
        if id(value) in above:
            continue  # an object that holds itself
        if isinstance(value, (list, tuple)):
            fields = getattr(value, "_fields", range(len(value)))
            parts = zip(fields, value)
        elif isinstance(value, dict):
            parts = value.items()
        elif hasattr(value, "__dict__") and not isinstance(value, (type, type(get_state_dict), type(waiting))):
            parts = vars(value).items()
        else:
            continue
        inside = [(f"{name}{key}.", part, (*above, id(value))) for key, part in parts]
        waiting.extend(reversed(inside))
    return found


def get_parameters(obj) -> list[Tensor]:
    """The tensors of an object, each once."""
    found = {}
    for tensor in get_state_dict(obj).values():
        found.setdefault(id(tensor), tensor)
    return list(found.values())


_SHOWN = 8  # names whose dtype becomes another


def load_state_dict(model, state_dict: dict[str, Tensor], strict=True, verbose=True, consume=False, realize=True) -> list[Tensor]:
    """Gives the tensors of a model these values, on the devices where they are; dtypes become those of what is loaded. If strict,
    names of the model that are missing are an error; shapes that differ always are. Nothing has changed then. verbose: prints
    which names are not used, which are missing, and whose dtype becomes another."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"load_state_dict: expected a dictionary of tensors, got {shown(state_dict)}")
    into = get_state_dict(model)
    missing = [name for name in into if name not in state_dict]
    unused = [name for name in state_dict if name not in into]
    if strict and missing:
        raise Error(f"load_state_dict: missing {missing}, not used {unused}")
    for name, tensor in into.items():
        if name in state_dict and not isinstance(state_dict[name], Tensor):
            raise TypeError(f"load_state_dict: {name} is {shown(state_dict[name])}, expected a Tensor")
        if name in state_dict and state_dict[name].shape != tensor.shape:
            raise ShapeError(f"load_state_dict: {name} has shape {tensor.shape} in the model, {state_dict[name].shape} in what is loaded")
    if verbose and unused:
        print(f"load_state_dict: not used {unused}")
    if verbose and missing:
        print(f"load_state_dict: missing {missing}")
    if verbose and (other := [name for name in into if name in state_dict and state_dict[name].dtype != into[name].dtype]):
        changes = ", ".join(f"{name} {into[name].dtype.name} -> {state_dict[name].dtype.name}" for name in other[:_SHOWN])
        more = f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
        print(f"load_state_dict: of another dtype {changes}{more}")
    loaded = []
    for name, tensor in into.items():
        if name not in state_dict:
            continue
        value = state_dict.pop(name) if consume else state_dict[name]
        value = value.shard(tensor.device) if isinstance(tensor.device, tuple) else value.to(tensor.device)
        loaded.append(tensor.replace(value.contiguous()))
    if realize and loaded:
        loaded[0].realize(*loaded[1:])
    return loaded


def _opened(t):
    return io.BytesIO(t.tobytes()) if isinstance(t, Tensor) else pathlib.Path(t).open("rb")


def safe_load(fn) -> dict[str, Tensor]:
    """The tensors of a file of safetensors, by name. Of a checkpoint in several files: of its index, model.safetensors.index.json, or
    of the folder that has it."""
    if isinstance(fn, Tensor):
        return _safe_load(fn)
    path = pathlib.Path(os.fsdecode(fn))
    if path.is_dir():
        found = sorted(path.glob("*.safetensors.index.json")) or sorted(path.glob("*.safetensors"))
        if len(found) != 1:
            raise Error(f"safe_load: {path} has {len(found)} files *.safetensors and no index of them, expected one")
        path = found[0]
    return _load_index(path) if path.name.endswith(".json") else _safe_load(path)


def _load_index(path) -> dict[str, Tensor]:
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
            raise TypeError("weight_map")
    except FileNotFoundError:
        return _safe_load(path)  # which says that it is not there
    except (OSError, KeyError, TypeError, ValueError) as e:
        raise Error(f"{path}: not an index of files of safetensors: expected a weight_map of names of files ({e!r})") from None
    for name in set(files.values()):
        if pathlib.PurePath(name).name != name:
            raise Error(f"{path}: {name!r} is no name of a file beside it")
    parts = {name: _safe_load(path.parent / name) for name in sorted(set(files.values()))}
    missing = [tensor for tensor, name in files.items() if tensor not in parts[name]]
    if missing:
        raise Error(f"{path}: {files[missing[0]]} does not have {missing[0]}" + (f", and {len(missing) - 1} more" if missing[1:] else ""))
    return {tensor: parts[name][tensor] for tensor, name in files.items()}


def tar_extract(t) -> dict[str, Tensor]:
    """The files of a tar archive (a path, or a tensor of its bytes), by name."""
    import tarfile

    with _opened(t) as file, tarfile.open(fileobj=file) as archive:
        return {m.name: Tensor(archive.extractfile(m).read(), dtype="uint8") for m in archive if m.isfile()}


def zip_extract(t) -> dict[str, Tensor]:
    """The files of a zip archive (a path, or a tensor of its bytes), by name."""
    import zipfile

    with _opened(t) as file, zipfile.ZipFile(file) as archive:
        return {m.filename: Tensor(archive.read(m), dtype="uint8") for m in archive.infolist() if not m.is_dir()}


__all__ = [
    "get_parameters", "get_state_dict", "gguf_load", "load_state_dict", "npy_load", "npy_save", "npz_load", "safe_load",
    "safe_load_metadata", "safe_save", "tar_extract", "torch_load", "zip_extract",
]
