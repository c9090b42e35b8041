"""Functions as layers: activations, dropout, pools and losses, with the arguments that they have in PyTorch; and Sequential."""

import inspect

from quern._core import Tensor, shown
from quern.nn import given
from quern.nn.describe import Layer


def _layer(name: str, call, doc: str, **defaults):
    """A class of layers that call a function with the input and the options that they were made with."""
    names = list(defaults)

    def __init__(self, *args, **options):
        if len(args) > len(names):
            raise TypeError(f"{name}: expected at most {len(names)} arguments, got {len(args)}")
        values = {**defaults, **dict(zip(names, args))}
        for option, value in options.items():
            if option not in defaults or names.index(option) < len(args):
                raise TypeError(f"{name}: there is no option {option!r}; there are {', '.join(names) or 'none'}"
                                if option not in defaults else f"{name}: {option} is given twice")
            values[option] = value
        for option, value in values.items():
            if value is _needed:
                raise TypeError(f"{name}: {option} is missing")
        self.__dict__.update(values)

    def __call__(self, x: Tensor, *others):
        return call(given.tensor(self, x), *others, **vars(self))

    def options(self):
        return ", ".join(f"{option}={value!r}" for option, value in vars(self).items() if value != defaults[option])

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [inspect.Parameter(option, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                     default=inspect.Parameter.empty if value is _needed else value) for option, value in defaults.items()]
    __init__.__signature__ = inspect.Signature(parameters)
    members = {"__init__": __init__, "__call__": __call__, "options": options, "__doc__": doc, "__module__": __name__}
    return type(name, (Layer,), members)


_needed = object()

ReLU = _layer("ReLU", lambda x, inplace: x.relu(), "max(x, 0).", inplace=False)
ReLU6 = _layer("ReLU6", lambda x, inplace: x.relu6(), "x within 0 and 6.", inplace=False)
LeakyReLU = _layer("LeakyReLU", lambda x, negative_slope, inplace: x.leaky_relu(negative_slope),
                   "x where it is positive, else negative_slope * x.", negative_slope=0.01, inplace=False)
ELU = _layer("ELU", lambda x, alpha, inplace: x.elu(alpha), "x where it is positive, else alpha * (exp(x) - 1).", alpha=1.0, inplace=False)
CELU = _layer("CELU", lambda x, alpha, inplace: x.celu(alpha), "Tensor.celu().", alpha=1.0, inplace=False)
SELU = _layer("SELU", lambda x, inplace: x.selu(), "Tensor.selu().", inplace=False)
GELU = _layer("GELU", lambda x, approximate: x.gelu(approximate), "x * P(normal <= x), or with 'tanh' nearly so.", approximate="none")
SiLU = _layer("SiLU", lambda x, inplace: x.silu(), "x * sigmoid(x).", inplace=False)
Mish = _layer("Mish", lambda x, inplace: x.mish(), "x * tanh(softplus(x)).", inplace=False)
Tanh = _layer("Tanh", lambda x: x.tanh(), "tanh(x).")
Sigmoid = _layer("Sigmoid", lambda x: x.sigmoid(), "1 / (1 + exp(-x)).")
LogSigmoid = _layer("LogSigmoid", lambda x: x.logsigmoid(), "log(sigmoid(x)).")
Softplus = _layer("Softplus", lambda x, beta: x.softplus(beta), "log(1 + exp(beta * x)) / beta.", beta=1.0)
Softsign = _layer("Softsign", lambda x: x.softsign(), "x / (1 + |x|).")
Hardsigmoid = _layer("Hardsigmoid", lambda x, inplace: x.hardsigmoid(), "x / 6 + 1 / 2 within 0 and 1.", inplace=False)
Hardswish = _layer("Hardswish", lambda x, inplace: x.hardswish(), "x * relu6(x + 3) / 6.", inplace=False)
Hardtanh = _layer("Hardtanh", lambda x, min_val, max_val, inplace: x.hardtanh(min_val, max_val), "x within bounds.", min_val=-1.0,
                  max_val=1.0, inplace=False)
Softmax = _layer("Softmax", lambda x, dim: x.softmax(dim), "exp(x) / sum(exp(x)) along an axis.", dim=-1)
LogSoftmax = _layer("LogSoftmax", lambda x, dim: x.log_softmax(dim), "log(softmax(x)).", dim=-1)
GLU = _layer("GLU", lambda x, dim: x.glu(dim), "One half along an axis by the sigmoid of the other.", dim=-1)
Identity = _layer("Identity", lambda x: x, "The input as it is.")
Flatten = _layer("Flatten", lambda x, start_dim, end_dim: x.flatten(start_dim, end_dim), "Several axes as one; the first stays.",
                 start_dim=1, end_dim=-1)
Unflatten = _layer("Unflatten", lambda x, dim, unflattened_size: x.unflatten(dim, unflattened_size), "One axis as several.", dim=_needed,
                   unflattened_size=_needed)
Dropout = _layer("Dropout", lambda x, p, inplace: x.dropout(p), "In training, each element is 0 with probability p.", p=0.5, inplace=False)
MaxPool2d = _layer("MaxPool2d", lambda x, kernel_size, stride, padding, dilation, return_indices, ceil_mode: x.max_pool2d(
    kernel_size, stride, dilation, padding, ceil_mode, return_indices), "The greatest of each window.", kernel_size=_needed, stride=None,
    padding=0, dilation=1, return_indices=False, ceil_mode=False)
AvgPool2d = _layer("AvgPool2d", lambda x, kernel_size, stride, padding, ceil_mode, count_include_pad: x.avg_pool2d(
    kernel_size, stride, 1, padding, ceil_mode, count_include_pad), "Means of windows.", kernel_size=_needed, stride=None, padding=0,
    ceil_mode=False, count_include_pad=True)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", lambda x, output_size: x.adaptive_avg_pool2d(output_size), "As many means.",
                           output_size=_needed)
AdaptiveMaxPool2d = _layer("AdaptiveMaxPool2d", lambda x, output_size: x.adaptive_max_pool2d(output_size), "As many greatest values.",
                           output_size=_needed)
PixelShuffle = _layer("PixelShuffle", lambda x, upscale_factor: x.pixel_shuffle(upscale_factor), "Channels as pixels.",
                      upscale_factor=_needed)
MSELoss = _layer("MSELoss", lambda x, y, reduction: x.mse_loss(y, reduction), "Squared differences.", reduction="mean")
L1Loss = _layer("L1Loss", lambda x, y, reduction: x.l1_loss(y, reduction), "Absolute differences.", reduction="mean")
SmoothL1Loss = _layer("SmoothL1Loss", lambda x, y, reduction, beta: x.smooth_l1_loss(y, reduction, beta), "Tensor.smooth_l1_loss().",
                      reduction="mean", beta=1.0)
HuberLoss = _layer("HuberLoss", lambda x, y, reduction, delta: x.huber_loss(y, reduction, delta), "Tensor.huber_loss().",
                   reduction="mean", delta=1.0)
KLDivLoss = _layer("KLDivLoss", lambda x, y, reduction, log_target: x.kl_div(y, reduction, log_target), "Tensor.kl_div().",
                   reduction="mean", log_target=False)
BCELoss = _layer("BCELoss", lambda x, y, reduction: x.binary_crossentropy(y, reduction), "Cross entropy of probabilities.",
                 reduction="mean")
BCEWithLogitsLoss = _layer("BCEWithLogitsLoss", lambda x, y, reduction, pos_weight: x.binary_crossentropy_logits(y, reduction, pos_weight),
                           "Cross entropy of logits.", reduction="mean", pos_weight=None)
CrossEntropyLoss = _layer("CrossEntropyLoss", lambda x, y, reduction, label_smoothing: x.cross_entropy(y, reduction, label_smoothing),
                          "The cross entropy of logits and classes.", reduction="mean", label_smoothing=0.0)


class PReLU(Layer):
    """x where it is positive, else weight * x: one weight, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25):
        self.weight = Tensor.full((given.size("PReLU", "num_parameters", num_parameters, 1),), init)

    def __call__(self, x: Tensor) -> Tensor:
        return given.tensor(self, x).prelu(self.weight)


class Sequential(Layer):
    """Layers, or functions, one after the other. Its tensors are called by the number of the layer: 0.weight."""

    def __init__(self, *layers):
        for number, layer in enumerate(layers):
            self._put(number, layer)

    def _put(self, number: int, layer):
        if not callable(layer):
            raise TypeError(f"Sequential: expected a layer or a function, got {shown(layer)}")
        setattr(self, str(number), layer)

    def append(self, layer):
        """One more layer behind the others."""
        self._put(len(self), layer)
        return self

    def __len__(self):
        return len(vars(self))

    def __iter__(self):
        return iter(list(vars(self).values()))

    def __getitem__(self, at):
        layers = list(self)
        return Sequential(*layers[at]) if isinstance(at, slice) else layers[at]

    def __call__(self, x):
        for layer in self:
            x = layer(x)
        return x


__all__ = [name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, Layer) and value is not Layer]
