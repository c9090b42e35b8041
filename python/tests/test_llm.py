"""quern.llm as users have it: answers, streams, chats, errors. The model is small and random."""

import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("gguf")
llm = pytest.importorskip("quern.llm")

import quern  # noqa: E402 (after the check that there are language models)
import small_models  # noqa: E402

PROMPT = [5, 9, 33, 70, 21]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small.gguf"
    small_models.SmallModel("qwen2", path)
    return path


@pytest.fixture(scope="module")
def model(path):
    return llm.load(path, context=64)


def test_greedy_tokens_are_those_of_the_logits(model):
    got = model.details(PROMPT, max_tokens=12, temperature=0, ignore_end=True, logprobs=3)
    tokens = list(PROMPT)
    for token, log_probability, likeliest in zip(got.tokens, got.log_probabilities, got.likeliest):
        logits = model.logits(tokens).numpy().astype(np.float64)
        assert token == logits.argmax()
        expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert log_probability == pytest.approx(expected[token], abs=1e-4)
        assert [t for t, _ in likeliest] == np.argsort(-logits, kind="stable")[:3].tolist()
        tokens.append(token)
    assert got.reason == "length"
    assert len(got.tokens) == 12


def test_the_same_seed_gives_the_same_answer_whatever_was_computed_before(model):
    options = dict(max_tokens=20, temperature=1.5, top_k=0, top_p=1, min_p=0, ignore_end=True)
    model.forget()
    first = model.details(PROMPT, seed=3, **options)
    assert first.reused_tokens == 0
    again = model.details(PROMPT, seed=3, **options)
    assert again.reused_tokens == len(PROMPT) - 1
    assert first.tokens == again.tokens
    assert model.details(PROMPT, seed=4, **options).tokens != first.tokens
    longer = model.details(PROMPT + first.tokens[:5], seed=3, **options)
    assert longer.reused_tokens == 5
    assert longer.tokens[:15] == first.tokens[5:]  # the place in the text is the place in the random numbers


def test_streams_are_the_answer_in_parts(model):
    options = dict(max_tokens=20, temperature=0, ignore_end=True)
    parts = list(model.stream(PROMPT, **options))
    assert "".join(parts) == model.generate(PROMPT, **options)
    assert len(parts) > 5
    stream = model.stream(PROMPT, **options)
    next(stream)
    stream.close()
    assert threading.active_count() < 5
    with pytest.raises(quern.Error, match="temperature"):
        list(model.stream(PROMPT, temperature=-1))


def test_stops(model):
    whole = model.generate(PROMPT, max_tokens=20, temperature=0, ignore_end=True)
    stop = whole[4:6]
    got = model.details(PROMPT, max_tokens=20, temperature=0, ignore_end=True, stop=stop)
    assert got.reason == "stop"
    assert got.text == whole[: whole.index(stop)]
    first = model.details(PROMPT, max_tokens=1, temperature=0, ignore_end=True).tokens[0]
    got = model.details(PROMPT, max_tokens=20, temperature=0, stop_tokens=[first])
    assert (got.reason, got.tokens) == ("end", [])
    got = model.details(PROMPT, max_tokens=20, temperature=0, logit_bias={2: 1000})
    assert (got.reason, got.text) == ("end", "")
    seen = []
    got = model.details(PROMPT, max_tokens=20, temperature=0, ignore_end=True, show=lambda text: seen.append(text) or len(seen) < 3)
    assert (got.reason, len(got.tokens)) == ("interrupted", 3)


def test_the_context_ends_an_answer(model):
    got = model.details(PROMPT, max_tokens=1000, temperature=0, ignore_end=True)
    assert got.reason == "context"
    assert len(got.tokens) == 64 - len(PROMPT) + 1
    with pytest.raises(quern.Error, match="65 tokens, and the context is of 64"):
        model.generate([5] * 65)
    assert len(model.generate([5] * 64, max_tokens=3, ignore_end=True)) > 0


def test_chat(model):
    messages = [{"role": "user", "content": "hi"}]
    tokens = model.chat_prompt(messages)
    assert model.tokenizer.decode(tokens) == "u:hi;a:"
    assert model.chat(messages, max_tokens=5, temperature=0, ignore_end=True) == model.generate(tokens, max_tokens=5, temperature=0, ignore_end=True)


def test_embeddings(model):
    vectors = model.embed(["ab", "cd", "ab"]).numpy()
    assert vectors.shape == (3, small_models.WIDTH)
    assert np.allclose((vectors**2).sum(-1), 1, atol=1e-5)
    assert np.allclose(vectors[0], vectors[2], atol=1e-6)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-2)


@pytest.mark.parametrize("options", [{"prompt": []}, {"prompt": [9999]}, {"prompt": [-1]}, {"prompt": PROMPT, "top_p": 2}, {"prompt": PROMPT, "max_tokens": -1},
                                     {"prompt": PROMPT, "logit_bias": {9999: 1}}])
def test_wrong_options_are_errors(model, options):
    with pytest.raises(quern.Error):
        model.generate(**options)


def test_threads_take_turns(model):
    expected = [model.generate([5, i], max_tokens=6, temperature=0, ignore_end=True) for i in range(4)]
    got = [None] * 4

    def work(i):
        got[i] = model.generate([5, i], max_tokens=6, temperature=0, ignore_end=True)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected


SCRIPT = """
import sys
from quern import Context, llm
model = llm.load(sys.argv[1], context=200)
options = dict(temperature=0, ignore_end=True)
for length in (3, 60, 3, 60):  # chunks of 16 and of 128, and single tokens
    model.forget()
    model.generate([5] * length, max_tokens=4, **options)
print("warm", flush=True)
with Context(DEBUG=2):
    for length in (2, 9, 15, 31, 60):
        model.forget()
        model.generate([3 + i % 90 for i in range(length)], max_tokens=10, **options)
"""


def test_nothing_is_scheduled_or_compiled_once_it_is_warm(path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True, env=os.environ)
    output = done.stdout.split("warm\n")[1] + done.stderr
    assert "kernel" in output
    assert not [line for line in output.splitlines() if "schedule" in line or "compil" in line]


def wrong(path, change):
    """What load() says of a file with other bytes."""
    content = path.read_bytes()
    other = path.with_name("wrong.gguf")
    other.write_bytes(change(content))
    with pytest.raises(quern.Error) as error:
        llm.load(other, context=32)
    return str(error.value)


def test_wrong_files_are_errors(path, tmp_path):
    with pytest.raises((quern.Error, OSError)):
        llm.load(tmp_path / "missing.gguf")
    assert "cut off" in wrong(path, lambda content: content[:-2000])
    assert "GGUF" in wrong(path, lambda content: b"no model")
    assert "the architecture 'qwen9' is not known; known are: llama" in wrong(path, lambda content: content.replace(b"qwen2", b"qwen9"))
    assert "block_count" in wrong(path, lambda content: content.replace(b"qwen2.block_count", b"qwen2.block_xxxxx"))
    assert "no tensor 'blk.1.attn_k.weight'" in wrong(path, lambda content: content.replace(b"blk.1.attn_k.weight", b"blk.1.attn_x.weight"))
    assert "tokens" in wrong(path, lambda content: content.replace(b"tokenizer.ggml.tokens", b"tokenizer.ggml.takens"))
    with pytest.raises(quern.MemoryError, match="ask for a smaller one"):
        llm.load(path, context=1 << 27)
    with pytest.raises(quern.Error):
        llm.load(path, context=-1)


def test_random_changes_to_a_file_are_errors_or_other_models(path):
    """No change of the part before the tensors crashes the process."""
    content = path.read_bytes()
    end = content.index(b"blk.0")
    rng = np.random.default_rng(11)
    other = path.with_name("changed.gguf")
    for _ in range(40):
        changed = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(0, end)] = rng.integers(0, 256)
        other.write_bytes(changed)
        try:
            llm.load(other, context=32)
        except quern.Error:
            pass


# ---- A real model, where there is one: ./dev model smollm2

REAL = pathlib.Path(os.environ.get("QUERN_MODELS", pathlib.Path(__file__).parents[2] / "build/models"), "smollm2.gguf")


@pytest.mark.skipif(not REAL.exists(), reason="there is no smollm2.gguf: ./dev model smollm2")
def test_smollm2_logits_are_those_of_numpy():
    import gguf

    class Smollm2(small_models.SmallModel):
        def __init__(self):
            reader = gguf.GGUFReader(REAL)
            self.w = {t.name: (gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64),) for t in reader.tensors}
            self.f = {"arch": "llama", "rope": "pairs", "norm": "rms", "act": "silu", "gated": True, "kv": 3, "head": 64, "layers": 30, "rope_size": 64}
            self.base = 100000.0

    model = llm.load(REAL, context=64)
    tokens = model.tokenizer.encode("The quick brown fox jumps over the lazy dog. In 1969, the first")
    before = small_models.HEADS, small_models.WIDTH
    small_models.HEADS, small_models.WIDTH = 9, 576
    try:
        expected = Smollm2().logits(np.array(tokens))
    finally:
        small_models.HEADS, small_models.WIDTH = before
    assert np.abs(model.logits(tokens).numpy() - expected[-1]).max() < 0.02  # float16 in the cache; logits are some 4 from their mean
    model.forget()
    for i in (1, 2, 3, 4):
        assert np.abs(model.logits(tokens[:i]).numpy() - expected[i - 1]).max() < 0.02
    assert "Paris" in model.generate("The capital of France is", max_tokens=4, temperature=0)
