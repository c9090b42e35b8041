"""Language models: small random ones of each architecture against NumPy."""

import numpy as np
import pytest

pytest.importorskip("gguf")
llm = pytest.importorskip("quern.llm")
small_models = pytest.importorskip("small_models")

TOKENS = np.random.default_rng(3).integers(3, small_models.VOCABULARY, 40).tolist()
# The cache rounds keys and values to float16; sums are float32.
TOLERANCE = 1e-3


@pytest.mark.parametrize("quantised", [False, True], ids=["float32", "Q8_0"])
@pytest.mark.parametrize("name", small_models.ARCHITECTURES)
def test_logits_are_those_of_numpy(name, quantised, tmp_path):
    if quantised and name not in ("llama", "phi3", "gemma3", "gpt2"):
        pytest.skip("blocks are converted the same way in all of them")
    path = tmp_path / "small.gguf"
    reference = small_models.SmallModel(name, path, quantised)
    model = llm.load(path, context=100)
    assert model.architecture == reference.f["arch"]
    expected = reference.logits(np.array(TOKENS))
    scale = np.abs(expected).max()
    # The prompt at once, in chunks of 16; and token by token, first runs, capture and replays.
    assert np.abs(model.logits(TOKENS).numpy() - expected[-1]).max() < TOLERANCE * scale
    model.forget()
    for i in (1, 16, 17, 18, 19, 20, 21, 40):
        assert np.abs(model.logits(TOKENS[:i]).numpy() - expected[i - 1]).max() < TOLERANCE * scale, i
    shifted = expected - expected.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    wanted = log_probabilities[np.arange(len(TOKENS) - 1), TOKENS[1:]]
    assert np.abs(model.log_probabilities(TOKENS).numpy() - wanted).max() < TOLERANCE * scale * 2
