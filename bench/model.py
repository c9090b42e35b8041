"""The model suite: how well the cost model orders lists of opts, over kernels of all kinds that are measured with many lists each. The
sizes are those that the rates were declared by, then others made from --seed."""

import harness

given = harness.options(add=lambda parser: parser.add_argument("--seed", type=int, default=1, help="of the second sizes"))
ours = []
for seed in (0, given.seed):
    for row in harness.run([harness.program("model"), "--seed", seed]):
        ours.append(row | {"name": f"{row['name']}, {'known sizes' if seed == 0 else f'seed {seed}'}"})
harness.report(ours, {}, given)
