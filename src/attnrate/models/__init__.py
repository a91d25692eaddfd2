"""The hypothesis spaces: modules that are trained, compiled and measured."""
