"""Hides the package of that name, with the weights of ``Builtin/minilm``, from the processes that tests start."""
