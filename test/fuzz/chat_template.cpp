// Chat templates.
#include "quern/llm/template/template.h"

#include "quern/io/bytes.h"
#include "test/fuzz/target.h"

FUZZ((void)quern::llm::ChatTemplate(std::string(text_of(bytes)))
         .render(R"({"messages": [{"role": "user", "content": " Hi "}], "bos_token": "<s>", "tools": null})",
                 {.steps = 20000, .bytes = 1 << 20, .output = 1 << 18}))
