"""Every method of Tensor, and every name that users know, is used by a test of ops."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTIONS = ("Making", "Shape", "Indexing", "Elementwise", "Reduce", "Linear algebra", "Losses")

# What users of other libraries look for.
NAMES = """
empty full zeros ones arange linspace eye tril triu diag meshgrid one_hot from_blob from_file empty_like full_like
zeros_like ones_like rand_like randn_like rand randn randint normal uniform scaled_uniform glorot_uniform
kaiming_uniform kaiming_normal randperm multinomial dropout manual_seed
reshape view expand permute transpose T flatten unflatten squeeze unsqueeze shrink pad flip roll repeat
repeat_interleave cat stack split chunk unfold rearrange diagonal shrink_to pad_to at set gather scatter
scatter_reduce masked_select masked_fill nonzero sort argsort topk interpolate
add sub mul div mod fmod pow neg reciprocal maximum minimum where lerp clamp abs sign copysign ceil floor round trunc
sqrt rsqrt square exp exp2 log log2 log10 logaddexp sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
sigmoid logsigmoid relu relu6 leaky_relu elu celu selu gelu quick_gelu silu swish mish softplus softsign hardsigmoid
hardswish hardtanh bitwise_and bitwise_or bitwise_xor bitwise_not lshift rshift eq ne lt le gt ge isnan isinf isfinite
isclose allclose cast bitcast threefry
sum prod max min mean var std var_mean std_mean any all argmax argmin logsumexp softmax softmin log_softmax cumsum
cumprod cummax cummin logcumsumexp normalize
dot matmul einsum linear conv2d conv_transpose2d avg_pool2d max_pool2d max_unpool2d batchnorm layernorm
scaled_dot_product_attention qr svd newton_schulz sequential
cross_entropy sparse_categorical_crossentropy nll_loss binary_crossentropy binary_crossentropy_logits
""".split()


BY_HAND = {"set": "TEST(Set, Places)"}  # tested where no row and no EXPECT names it


def methods(header: str) -> dict[str, str]:
    """The names declared under the headings of SECTIONS, and their headings."""
    found = {}
    for part in re.split(r"^  // ---- ", header, flags=re.M)[1:]:
        if part.startswith(SECTIONS):
            for name in re.findall(r"^  (?:static )?[\w:<>, ]+?[ >](\w+)\(", part, flags=re.M):
                if name != "operator":
                    found.setdefault(name, part.split()[0].strip(":"))
    return found


def main() -> int:
    declared = methods((ROOT / "quern/tensor/core/tensor.h").read_text())
    tests = "\n".join(p.read_text() for p in sorted((ROOT / "test/ops").glob("*_test.cpp")))
    called = set(re.findall(r"(?:\.|::)(\w+)(?=[(,<\s})])", tests))
    rows = set(re.findall(r'"(\w+)[ ,"]', tests))  # their names begin with the method's
    expected = {
        name
        for statement in re.findall(r"EXPECT_\w+\((.*?);\n", tests, flags=re.S)
        for name in re.findall(r"(?:\.|::)(\w+)\(", statement)
    }
    problems = [f"{n} is a name that users know; tensor.h does not declare it" for n in NAMES if n not in declared]
    for name, section in declared.items():
        tested = name in rows or name in expected or section == "Making" or BY_HAND.get(name, "?") in tests
        if name not in called or not tested:
            problems.append(f"{name} ({section}) is declared in tensor.h, and test/ops has neither a row nor a test of it")
    print("\n".join(problems) or f"{len(declared)} methods, all of them tested")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
