"""Real data and real weights: fetched from package registries, verified, cached.

- registry.py: a package's file by its client, the cache, and the errors of this room; client.py and
  fetchers.py are the programs that it starts, and nothing that comes is ever run.
- unpack.py: files out of archives, safely; cached.py: what is in the cache, opened or made.
- weights.py: models by short names. text.py: running text. cifar10.py: photographs, from a hub or
  a package.
- translation.py: English-German pairs, of the messages that catalogues.py finds in Debian packages
  and clean.py makes sentences of; gather.py fetches many packages while readers.py has others read.
  bpe.py: their vocabulary.
"""
