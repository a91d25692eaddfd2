"""MiniLM as it is published: fetched, opened, read and looked at."""

import numpy as np
import pytest
import torch

from attnrate.data.weights import model_weights
from attnrate.spectra.inputs.running import read_text
from attnrate.spectra.load import load_model
from attnrate.spectra.weights_only import weight_spectra

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def folder(real):
    pytest.importorskip("transformers")
    return real("attnrate data weights minilm", model_weights, "minilm")


def test_sentences_of_one_meaning_are_close(folder, tmp_path):
    """What the model was trained for, so tokens and weights are the right ones."""
    loaded = load_model(folder)
    assert (loaded.name, loaded.longest) == ("minilm", 512)
    vectors = []
    for sentence in ("A man is eating food.", "Someone has a meal.", "The engine needs oil."):
        path = tmp_path / "sentence.txt"
        path.write_text(sentence)
        (batch,) = read_text(loaded, path, length=32)
        with torch.no_grad():
            vectors.append(loaded.model(**batch).last_hidden_state[0].mean(0))
    near, far = (torch.cosine_similarity(vectors[0], other, dim=0) for other in vectors[1:])
    assert near > far + 0.3


def test_weights_alone_agree_with_the_dense_matrix(folder):
    found = weight_spectra(folder)
    assert (len(found.layers), found.layers[0].sigma.shape) == (6, (12, 32))
    part = load_model(folder).model.encoder.layer[3].attention.self
    W_Q, W_K = (p.weight[64:96].detach().double().numpy() for p in (part.query, part.key))
    dense = np.linalg.svd(W_Q.T @ W_K, compute_uv=False)[:32]
    np.testing.assert_allclose(found.sigma(3, 2), dense, rtol=1e-9, atol=1e-12 * dense[0])
