"""Language models from files of GGUF.

    from quern import llm
    model = llm.load("model.gguf")
    print(model.generate("Once upon a time", max_tokens=40))
    for text in model.stream("Once upon a time"):
        print(text, end="", flush=True)
    print(model.chat([{"role": "user", "content": "Hello!"}]))
"""

import json
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from quern import _core

if not hasattr(_core, "LanguageModel"):
    raise ImportError("quern was built without language models: PCRE2 (Debian: libpcre2-dev) was not there")

from quern._core import Tensor, Tokenizer  # noqa: E402 (after the check that they are there)


class ChatTemplate(_core.ChatTemplate):
    """A chat template: the part of Jinja that templates of models use, evaluated without running any code."""

    def render(self, **variables) -> str:
        """The text for these variables, which must be what JSON can hold."""
        return self.render_json(json.dumps(variables))


class Generated(NamedTuple):
    """An answer, and how it came to be."""

    text: str
    tokens: list[int]
    log_probabilities: list[float]  # of each token
    likeliest: list[list[tuple[int, float]]]  # tokens with their log probabilities, as many as logprobs= asked for
    reason: str  # why it ended: "end", "stop", "length", "context" or "interrupted"
    prompt_tokens: int
    reused_tokens: int  # of the prompt, that were known from before
    prompt_seconds: float
    decode_seconds: float


class Model:
    """A language model. load() makes it."""

    def __init__(self, core: "_core.LanguageModel"):
        self._core = core
        self.tokenizer: Tokenizer = core.tokenizer
        self.context: int = core.context
        self.architecture: str = core.architecture

    def details(self, prompt: str | Sequence[int], *, max_tokens: int = 256, temperature: float = 0.8, top_k: int = 40, top_p: float = 0.95,
                min_p: float = 0.05, typical_p: float = 1, repetition_penalty: float = 1, frequency_penalty: float = 0,
                presence_penalty: float = 0, penalty_window: int = 64, logit_bias: dict[int, float] | None = None, seed: int = 0,
                logprobs: int = 0, stop: str | Sequence[str] = (), stop_tokens: Sequence[int] = (), ignore_end: bool = False, show=None) -> Generated:
        """What follows a prompt, a text or tokens, with all that is known of it. show(text) gets the text as it comes and says whether
        to go on. temperature=0 takes the likeliest token each time; the same seed gives the same answer."""
        tokens = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        stop = [stop] if isinstance(stop, str) else list(stop)
        return Generated(**self._core.generate(
            tokens, max_tokens, temperature, top_k, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty,
            penalty_window, logit_bias or {}, seed, logprobs, stop, list(stop_tokens), ignore_end, show))

    def generate(self, prompt: str | Sequence[int], **options) -> str:
        """The text that follows a prompt. Options are those of details()."""
        return self.details(prompt, **options).text

    def stream(self, prompt: str | Sequence[int], **options) -> Iterator[str]:
        """The same in parts, as they come. Ending the iteration ends the answer."""
        parts: queue.SimpleQueue = queue.SimpleQueue()
        goes_on = True

        def show(text):
            parts.put(text)
            return goes_on

        def work():
            try:
                parts.put(self.details(prompt, show=show, **options))
            except BaseException as error:  # noqa: BLE001 (it is raised in the other thread)
                parts.put(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while isinstance(part := parts.get(), str):
                yield part
            if isinstance(part, BaseException):
                raise part
        finally:
            goes_on = False
            thread.join()

    def chat_prompt(self, messages: Sequence[dict[str, Any]], **variables) -> list[int]:
        """The tokens of a conversation, by the chat template of the file. variables go to the template: tools=, enable_thinking=, ..."""
        return self._core.chat_prompt(json.dumps({"messages": list(messages), "add_generation_prompt": True, **variables}))

    def chat(self, messages: Sequence[dict[str, Any]], *, tools: Sequence[dict[str, Any]] | None = None, **options) -> str:
        """The answer to a conversation: [{"role": "user", "content": "Hello!"}]. Options are those of details()."""
        return self.generate(self.chat_prompt(messages, **({"tools": list(tools)} if tools else {})), **options)

    def logits(self, prompt: str | Sequence[int]) -> Tensor:
        """The logits of what follows a prompt, one for each token of the vocabulary."""
        return self._core.logits(self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt))

    def log_probabilities(self, prompt: str | Sequence[int]) -> Tensor:
        """The natural logarithm of the probability of each token but the first, given those before it."""
        return self._core.log_probabilities(self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt))

    def embed(self, texts: str | Sequence[str], normalize: bool = True) -> Tensor:
        """A vector for each text: the mean of what the last layer makes of its tokens, of length 1 if normalize."""
        rows = []
        for text in [texts] if isinstance(texts, str) else texts:
            mean = self._core.hidden(self.tokenizer.encode(text)).reshape(-1, self._core.width).mean(0)
            rows.append((mean / mean.square().sum().sqrt() if normalize else mean).realize())
        return Tensor.stack(*rows)

    def forget(self) -> None:
        """Prompts are computed from their beginning on again."""
        self._core.forget()

    def __repr__(self) -> str:
        return f"<Model {self.architecture}, {len(self.tokenizer)} tokens, context {self.context}>"


def load(path, context: int = 0) -> Model:
    """A model from a file of GGUF, which is mapped. context: most tokens of a conversation; 0: as many as the model was trained for, 4096
    at most."""
    return Model(_core.LanguageModel.load(path, context))


__all__ = ["ChatTemplate", "Generated", "Model", "Tokenizer", "load"]
