"""The `stayput` command, one file per subcommand.

Modules here import typer, the standard library and stayput's light modules at the top, and everything
that needs torch, numpy or matplotlib inside the functions that use it: `stayput --help` must not wait for
them, and a test looks at `sys.modules` to see that it does not.
"""
