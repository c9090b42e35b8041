"""Files from the network, kept."""

import os
import pathlib

from quern._core import shown
from quern.progress import tqdm


def _folder() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "quern" / "downloads"


def fetch(url: str, name=None, subdir: str | None = None, gunzip: bool = False, allow_caching: bool = True,
          headers: dict[str, str] | None = None, sha256: str | None = None) -> pathlib.Path:
    """Downloads a file, once, and returns where it is. A path is returned as it is."""
    import gzip  # modules that only this needs, and that take time to load
    import hashlib
    import shutil
    import tempfile
    import urllib.request

    if not isinstance(url, (str, os.PathLike)):
        raise TypeError(f"fetch: expected a URL or a path, got {shown(url)}")
    if isinstance(url, os.PathLike) or url.startswith(("/", ".")):
        return pathlib.Path(url)
    if name is not None and (isinstance(name, pathlib.Path) or "/" in name):
        path = pathlib.Path(name)
    else:
        key = repr((url, sorted((headers or {}).items()), gunzip))
        path = _folder() / (subdir or "") / (name or hashlib.sha256(key.encode()).hexdigest())
    if path.is_file() and allow_caching and (sha256 is None or _hash(path) == sha256):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "quern", **(headers or {})})
    with urllib.request.urlopen(request, timeout=10) as answer, tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = pathlib.Path(folder, "part")
        length = None if gunzip else int(answer.headers.get("Content-Length") or 0) or None
        stream = gzip.GzipFile(fileobj=answer) if gunzip else answer
        with open(part, "wb") as file, tqdm(total=length, desc=url, unit="B", unit_scale=True, disable=None) as bar:
            while chunk := stream.read(1 << 18):
                bar.update(file.write(chunk))
        if length is not None and part.stat().st_size != length:
            raise OSError(f"fetch: {url} has {length} bytes, {part.stat().st_size} came")
        if sha256 is not None and _hash(part) != sha256:
            raise ValueError(f"fetch: {url} has the hash {_hash(part)}, expected {sha256}")
        shutil.move(part, path)  # whole or not at all
    return path


def _hash(path) -> str:
    import hashlib

    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
    return hashed.hexdigest()


__all__ = ["fetch"]
