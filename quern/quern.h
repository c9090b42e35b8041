// All of quern.
#pragma once

#include "quern/ir/arg.h"
#include "quern/ir/const.h"
#include "quern/ir/dtype.h"
#include "quern/ir/error.h"
#include "quern/ir/eval.h"
#include "quern/ir/op.h"
#include "quern/ir/parse.h"
#include "quern/ir/pattern.h"
#include "quern/ir/print.h"
#include "quern/ir/rewrite.h"
#include "quern/ir/rules.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"
#include "quern/ir/trace.h"
#include "quern/ir/uop.h"
#include "quern/tensor/tensor.h"
