"""The work of cpu.cpp by onnxruntime: a model of one node each."""

import os

import cpu_work
import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def node(operator, constants=(), opset=20, **attributes):
    """Constants are weights: onnxruntime prepares them once, as for a model's."""
    def prepare(*given, **options):
        shapes = [list(x.shape) for x in given]
        names = [f"x{i}" for i in range(len(given))]
        extra = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, c.shape, c.ravel()) for i, c in enumerate(constants)]
        settings = dict(attributes)
        if "stride" in options:
            settings |= {"strides": [options["stride"]] * 2, "pads": [options["padding"]] * 4}
        graph = helper.make_graph(
            [helper.make_node(operator, names + [c.name for c in extra], ["y"], **settings)], "one",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], extra)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = len(os.sched_getaffinity(0))
        session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, x in zip(names, given):
            binding.bind_cpu_input(name, x)
        binding.bind_output("y")
        return lambda: session.run_with_iobinding(binding)
    return prepare


cpu_work.measure(lambda x: x, {
    "matmul": node("MatMul"),
    "conv": node("Conv"),
    "add": node("Add"),
    "sum of rows": node("ReduceSum", opset=11, axes=[1]),
    "sum of columns": node("ReduceSum", opset=11, axes=[0]),
    "max of rows": node("ReduceMax", opset=11, axes=[1]),
    "softmax": node("Softmax"),
    "layernorm": node("LayerNormalization", [np.ones(1024, np.float32)]),
    "gelu (tanh)": node("Gelu", approximate="tanh"),
    "gelu (erf)": node("Gelu"),
    "transpose": node("Transpose"),
})
