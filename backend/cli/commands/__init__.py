"""The commands: a module or package is the first word of those in it, its docstring their help."""
