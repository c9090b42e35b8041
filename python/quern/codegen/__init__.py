"""How kernels are optimised: see quern.codegen.opt."""
