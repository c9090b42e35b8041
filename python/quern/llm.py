"""Language models from files of GGUF.

    from quern import llm
    model = llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=40))
"""

import json

from quern import _core

if not hasattr(_core, "Tokenizer"):
    raise ImportError("quern was built without language models: PCRE2 (Debian: libpcre2-dev) was not there")

from quern._core import Tokenizer  # noqa: E402 (after the check that it is there)


class ChatTemplate(_core.ChatTemplate):
    """A chat template: the part of Jinja that templates of models use, evaluated without running any code."""

    def render(self, **variables) -> str:
        """The text for these variables, which must be what JSON can hold."""
        return self.render_json(json.dumps(variables))


__all__ = ["ChatTemplate", "Tokenizer"]
