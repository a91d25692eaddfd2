"""The hypothesis spaces: modules that are trained, compiled and measured."""

from attnrate.models.transformer import LearnedCoupling, Transformer, feed_forward

__all__ = ["LearnedCoupling", "Transformer", "feed_forward"]
