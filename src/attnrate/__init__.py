"""attnrate: how large attention has to be.

`__init__.pyi` is the one list of public names; nothing else is public. A name is loaded when it is
first used, so that `import attnrate` and the command line's help are quick.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
