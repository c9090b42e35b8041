"""Device: where tensors are made and computed. Buffer: memory of one."""

from quern import _core
from quern._core import Buffer, shown


def _named(name) -> str:
    if not isinstance(name, str):
        raise TypeError(f"expected the name of a device, got {shown(name)}")
    return name


class _OpenDevice:
    """A device that was opened."""

    def __init__(self, name):
        self.device = self.name = _core.open_device(_named(name))

    @property
    def hardware(self) -> str:
        """What it is, where that is known."""
        return _core.device_hardware(self.name)

    def synchronize(self):
        """Waits for what was realized; that is done already when realize() returns."""

    def __repr__(self):
        return f"<Device {self.name}>"


class _Devices:
    """Device.DEFAULT is where tensors are made if nothing is said; Device["CPU"] opens a device."""

    @property
    def DEFAULT(self) -> str:
        """The name of the device that is used if nothing is said."""
        return _core.default_device()

    @DEFAULT.setter
    def DEFAULT(self, name: str):
        _core.set_setting("DEVICE", self.canonicalize(name))  # which a Context sets for a while

    @property
    def default(self) -> _OpenDevice:
        """That device, opened."""
        return _OpenDevice(_core.default_device())

    @staticmethod
    def canonicalize(name: str | None = None) -> str:
        """The one spelling of a name: "cpu:0" is "CPU"."""
        return _core.default_device() if name is None else _core.canonical_device(_named(name))

    @staticmethod
    def names() -> list[str]:
        """What names of devices may begin with."""
        return _core.known_devices()

    @staticmethod
    def get_available_devices():
        """The names of devices that can be opened here."""
        for name in _core.known_devices():
            if name == "NULL" or name.startswith("DISK"):
                continue
            try:
                yield _core.open_device(name)
            except _core.Error:
                continue

    def __init__(self):
        self._open = {}

    def __getitem__(self, name: str) -> _OpenDevice:
        known = self.canonicalize(_named(name))
        if known not in self._open:
            self._open[known] = _OpenDevice(known)
        return self._open[known]

    def __repr__(self):
        return f"<Device DEFAULT={self.DEFAULT}>"


Device = _Devices()

__all__ = ["Buffer", "Device"]
