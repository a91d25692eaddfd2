"""Finding a model's attention by running it, and passing every call of it on.

- `watcher`: a model under watch: its attention layers, and what was not seen of them (`unseen`)
- `running`: which module is at work; `rotation`: queries and keys before they are turned
- `desk`: where all sources of calls bring what they see
- `interface`: calls of the attention interface of `transformers`; `flex`: calls of flex_attention
- `operations`: calls of torch's own attention functions, and attention written out by hand, which
  `products` follows by `traces`, from the `product` of queries and keys to that with the values
- `axes`: what the axes of a tensor count; `reading`: kind, groups and padding, as calls show them
"""
