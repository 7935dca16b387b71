"""The commands of ChatMD, as listed in `lmm.cli.main`."""
