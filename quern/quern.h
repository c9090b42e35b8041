// All of quern.
#pragma once

#include "quern/ir/const.h"
#include "quern/ir/dtype.h"
#include "quern/ir/error.h"
#include "quern/ir/eval.h"
#include "quern/ir/op.h"
#include "quern/ir/parse.h"
#include "quern/ir/print.h"
