"""rocktools: find out why a JAX training step on AMD Instinct GPUs is slower than it should be.

Nothing is imported here, so that ``rocktools --help`` starts at once: import the module that answers the question.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
