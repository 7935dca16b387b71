"""The commands of ChatMD; `lmm.cli.commands` names them."""
