"""Inputs for any model of transformers, by the names of the arguments of its forward."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor
Batch = dict[str, Tensor]
INPUTS, TOKENS, FRAMES = 2, 11, 4


def batches_for(model: nn.Module) -> Iterator[Batch]:
    """Batches to try one after another, those with which most of the model runs first."""
    names = inspect.signature(model.forward).parameters
    config: Any = model.config
    yield from _texts_with_pictures(config, names)
    for picture in _pictures(config) if "pixel_values" in names else [None]:
        for sound in _sounds(config, names):
            batch = _text(config, names) | sound
            if picture is not None:
                batch["pixel_values"] = picture
            yield from _completed(batch, config, names)
    if "input_ids" in names:  # without the pictures or sounds that go with the text
        yield _text(config, names)


def _found(config: Any, *names: str, default: Any = None) -> Any:
    """A setting of a configuration or of the configurations within it."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    for each in vars(config).values():
        if hasattr(each, "to_dict") and each is not config:
            value = _found(each, *names)
            if value is not None:
                return value
    return default


def _numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def _ids(config: Any, tokens: int) -> Tensor:
    size = int(_found(config, "vocab_size", default=30))
    top = max(6, min(60, size - 20))
    return torch.randint(3, top, (INPUTS, tokens), generator=torch.Generator().manual_seed(tokens))


def _text(config: Any, names: Any) -> Batch:
    batch: Batch = {}
    if "input_ids" in names:
        batch["input_ids"] = _ids(config, TOKENS)
        if "attention_mask" in names:
            batch["attention_mask"] = torch.ones(INPUTS, TOKENS, dtype=torch.long)
    for name in ("decoder_input_ids", "input_ids_decoder"):
        if name in names:
            batch[name] = _ids(config, 7)
    if "bbox" in names:
        one = torch.tensor([1, 2, 5, 6])
        batch["bbox"] = one.expand(INPUTS, TOKENS, 4).clone()
    return batch


def _texts_with_pictures(config: Any, names: Any) -> Iterator[Batch]:
    """Texts with places for a picture each, as many as a picture may take."""
    place = _found(config, "image_token_id", "image_token_index")
    if place is None or not {"input_ids", "pixel_values"} <= set(names):
        return
    vision = getattr(config, "vision_config", config)
    patch = int(_found(vision, "patch_size", "spatial_patch_size", default=16) or 16)
    channels = int(_found(vision, "num_channels", "in_channels", "in_chans", default=3))
    if "image_grid_thw" in names:
        times = int(_found(vision, "temporal_patch_size", default=1) or 1)
        counts, grid = [4], torch.tensor([[1, 4, 4]]).expand(INPUTS, 3).clone()
        pictures = _numbers(INPUTS * 16, channels * times * patch**2)
    else:
        size = _found(vision, "image_size", "img_size", default=64)
        size = size[0] if isinstance(size, list | tuple) else int(size)
        whole = (size // patch) ** 2
        counts, grid = [whole, whole // 4, whole // 16, whole + 1, 64], None
        pictures = _numbers(INPUTS, channels, size, size)
    for count in counts:
        ids = torch.cat(
            [_ids(config, 3), torch.full((INPUTS, count), int(place)), _ids(config, 5)], 1
        )
        batch: Batch = {"input_ids": ids, "pixel_values": pictures}
        if grid is not None:
            batch["image_grid_thw"] = grid
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in names:
                batch[name] = (ids == int(place)).long()
        if "attention_mask" in names:
            batch["attention_mask"] = torch.ones_like(ids)
        yield batch


def _pictures(config: Any) -> Iterator[Tensor]:
    size = _found(config, "image_size", "img_size", "input_size", default=64)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = int(_found(config, "num_channels", "in_channels", "in_chans", default=3))
    frames = int(_found(config, "num_frames", "frames_per_clip", default=0) or 0)
    if frames:
        yield _numbers(INPUTS, frames, channels, height, width)
        yield _numbers(INPUTS, channels, frames, height, width)
    yield _numbers(INPUTS, channels, height, width)
    patch = int(_found(config, "patch_size", default=16) or 16)
    yield _numbers(INPUTS, 16, channels * patch**2)  # patches already taken out (SigLIP 2)


def _sounds(config: Any, names: Any) -> Iterator[Batch]:
    bins = int(_found(config, "num_mel_bins", "input_feat_per_channel", "n_mels", default=80))
    if "input_values" in names:
        yield {"input_values": _numbers(INPUTS, 1600)}
        length = int(_found(config, "max_length", default=64))
        yield {"input_values": _numbers(INPUTS, length, bins)}
        yield {"input_values": _numbers(INPUTS, 1, 1600)}
        yield {"input_values": _numbers(INPUTS, 40, bins)}
    elif "input_features" in names:
        length = 2 * int(_found(config, "max_source_positions", default=32))
        size = int(_found(config, "feature_projection_input_dim", "input_dim", default=bins))
        yield {"input_features": _numbers(INPUTS, bins, length)}
        yield {"input_features": _numbers(INPUTS, 40, size)}
    elif "input_points" in names and "pixel_values" in names:
        yield {"input_points": torch.full((INPUTS, 1, 1, 2), 20.0)}
    elif "past_values" in names:
        length = int(_found(config, "context_length", default=32) or 32)
        lags = _found(config, "lags_sequence", default=[0])
        channels = int(_found(config, "num_input_channels", "input_size", default=1))
        yield {"past_values": _numbers(INPUTS, length, channels)}
        yield {"past_values": _numbers(INPUTS, length + max(lags))}
        yield {"past_values": _numbers(INPUTS, length)}
    else:
        yield {}


def _completed(batch: Batch, config: Any, names: Any) -> Iterator[Batch]:
    """The batch with all that an argument without a default still asks for."""
    for name, parameter in names.items():
        needed = parameter.default is inspect.Parameter.empty
        if name in batch or not needed or parameter.kind.name.startswith("VAR"):
            continue
        if "mask" in name:
            batch[name] = torch.ones(INPUTS, TOKENS, dtype=torch.long)
        elif "hidden_states" in name or "embeds" in name or "inputs" in name or name == "x":
            size = int(_found(config, "hidden_size", "d_model", "d_latents", default=64))
            batch[name] = _numbers(INPUTS, TOKENS, size)
    if batch:
        yield batch
