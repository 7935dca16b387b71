"""The commands of ChatMD; `lmm.cli.main` names them."""
