"""Thin attention of families of models: one small file each, called as the original is.

A file of this folder has `thin`, a function from a layer's module and its thin parts to a module
that stands in its place, or None where the module belongs to another family. It is found by itself.

- `bart`, `bert`, `distilbert`, `gpt2`, `mpnet`, `t5`, `vit`: of transformers, and families built
  alike; `own`: attnrate's ViT and Seq2Seq
- `standing`: what these have in common; `interface`: the attention function that a user chose;
  `caching`: keys and values of earlier tokens; `parts`: the thin parts that a layer is made of
- `normed`: decoders that normalise queries and keys, with `maps` behind the rotation
- `llama`: rotary decoders, put in by `replace` with the pairs that each key head keeps
"""

from attnrate.compress.modules.parts import Parts, Thin
from attnrate.found import modules_of

__all__ = ["FAMILIES", "Parts", "Thin"]

FAMILIES: tuple[Thin, ...] = tuple(
    file.thin for file in modules_of(__name__) if hasattr(file, "thin")
)
