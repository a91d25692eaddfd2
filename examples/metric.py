"""What smaller heads do to the perplexity of a language model: a metric of one's own."""

import math

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

import attnrate as ar


def loss_per_token(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The mean of -log p(next token) of each input: one number per input."""
    logits = model(**batch).logits[:, :-1].transpose(1, 2)
    following = batch["input_ids"][:, 1:]
    return nn.functional.cross_entropy(logits, following, reduction="none").mean(1)


def texts(count: int) -> dict[str, Tensor]:
    """Texts of 48 tokens: eight drawn at random, again and again."""
    return {"input_ids": torch.randint(20, (count, 8)).repeat(1, 6)}


def trained(steps: int) -> nn.Module:
    """In your work: AutoModelForCausalLM.from_pretrained(...), with the head of its task."""
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48, "vocab_size": 20}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_per_token(model, texts(16)).mean().backward()
        optimiser.step()
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    model = trained(200)
    advice = ar.advise(ar.profile(model, texts(32)), budget=4)  # 2 layers, heads of size 16
    checked = advice.check(model, texts(16), metric=loss_per_token)
    print(checked)
    found = checked.metric
    if found is not None:
        before, after = (math.exp(each.value) for each in (found.before, found.after))
        print(f"perplexity {before:.2f} with whole heads, {after:.2f} with heads cut")
