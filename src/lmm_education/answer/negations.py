"""Words that deny, by language."""

NEGATIONS = {
    "en": r"not|no|never|cannot|neither|nor|none|nothing|nobody|without|\w+n['’]t",
    "de": r"nicht|nichts|kein\w*|nie|niemals|niemand|ohne|weder",
    "fr": r"ne|pas|jamais|aucune?|sans|rien|ni",
    "es": r"no|nunca|sin|ningun[oa]?|ningún|nada|ni",
    "it": r"non|mai|senza|nessun[oa]?|niente|né",
    "nl": r"niet|geen|nooit|zonder|niets|niemand",
}
"""Negations, for the languages in which they are compared."""
