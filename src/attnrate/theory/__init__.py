"""What can be said without training: POD, decay, complexity, bounds, compiled Transformers."""
