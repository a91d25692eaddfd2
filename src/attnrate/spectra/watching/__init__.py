"""Finding a model's attention by running it, and passing every call of it on.

- `watcher`: a model under watch: its attention layers, and what was not seen of them
- `running`: which module is at work; `rotation`: queries and keys before they are turned
- `interface`: calls of the attention interface of `transformers`
- `operations`: calls of scaled_dot_product_attention, and attention written out by hand, which
  `products` follows from the product of queries and keys to that of weights and values
- `layout`: which axis counts heads; `reading`: kind, groups and padding, as calls show them
"""
