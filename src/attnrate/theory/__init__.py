"""What can be said without training: POD, decay, complexity measures, bounds, compiled Transformers."""
