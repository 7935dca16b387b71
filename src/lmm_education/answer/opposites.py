"""Words that deny, and pairs of words that say the opposite of each other, by language."""

from __future__ import annotations

NEGATIONS = {
    "en": r"not|no|never|cannot|neither|nor|none|nothing|nobody|without|\w+n['’]t",
    "de": r"nicht|nichts|kein\w*|nie|niemals|niemand|ohne|weder",
    "fr": r"ne|pas|jamais|aucune?|sans|rien|ni",
    "es": r"no|nunca|sin|ningun[oa]?|ningún|nada|ni",
    "it": r"non|mai|senza|nessun[oa]?|niente|né",
    "nl": r"niet|geen|nooit|zonder|niets|niemand",
}
"""Negations, for the languages in which they are compared."""
HALF = (
    r"lack|fail|miss|unlike|instead|unable|hardly|rarely|prevent|avoid|too|few|little|neither|necessarily|statt"
    r"|kaum|wenig"
)
"""Words with which a clause may deny something without a negation, or not quite deny it: it is not compared."""
CONDITIONS = r"unless|until|without|except|otherwise|außer|bevor|ohne|sans|sin|senza|zonder"
"""Words with which a whole sentence is not compared."""
CLAUSES = {
    "en": "but|because|although|though|while|whereas|and|since|so",
    "de": "aber|sondern|weil|obwohl|während|und|denn|da",
    "fr": "mais|parce|et|car", "es": "pero|sino|porque|y", "it": "ma|perché|e", "nl": "maar|omdat|en",
}  # fmt: skip
"""Words between clauses."""
IF = r"if|whether|wenn|falls|ob|si|se|als"
"""Words that begin a condition, which says nothing by itself."""
DETERMINERS = r"no|kein\w*|aucune?|ningún|ningun[oa]|nessun[oa]?|geen"
"""Negations of the noun after them."""
DEGREES = {"more": "less fewer", "most": "least fewest", "mehr": "weniger", "meisten": "wenigsten"}
"""Opposites that only differ together with the word after them."""
_PAIRS = {
    "en":
    "increase decrease|increase reduce|rise fall|raise lower|grow shrink|gain lose|keep lose|kept lost"
    "|win lose|larger smaller|larger less|greater smaller|greater less|greater fewer|higher lower|high low"
    "|before after|earlier later|early late|above below|maximum minimum|largest smallest|highest lowest"
    "|always never|all none|everything nothing|faster slower|fast slow|quickly slowly|rapidly slowly"
    "|fastest slowest|allow forbid|allow prohibit|allow prevent|enable disable|include exclude"
    "|positive negative|open close|start end|begin end|first last|left right|mutable immutable"
    "|possible impossible|public private|true false|accept reject|approve reject|accept refuse|north south"
    "|northern southern|east west|eastern western|strong weak|stronger weaker|hot cold|warm cold|warmer colder"
    "|long short|longer shorter|old young|older younger|older newer|oldest newest|oldest youngest"
    "|easy difficult|easy hard|better worse|best worst|majority minority|top bottom|inside outside"
    "|internal external|encode decode|encrypt decrypt|add remove|insert delete|success failure|succeed fail"
    "|cheap expensive|heavy light|heavier lighter|wide narrow|deep shallow|thick thin|dark bright|safe unsafe"
    "|safe dangerous|legal illegal|required optional|mandatory optional|upper lower|same different"
    "|equal unequal|dependent independent|stable unstable|known unknown|common rare|often rarely"
    "|ascending descending|input output|import export|buy sell|sender receiver|parent child|even odd|rich poor"
    "|dry wet|signed unsigned|valid invalid|visible invisible|advantage disadvantage|agree disagree"
    "|support oppose|defend attack|protect damage|active inactive|present absent|appear disappear"
    "|oxidize reduce|attract repel|absorb emit|full empty|far near|double halve|static dynamic|direct indirect"
    "|linear nonlinear|regular irregular|voluntary compulsory|rose fell|won lost|gain lost|exothermic endothermic"
    "|admissible inadmissible|sufficient insufficient|complete incomplete|correct incorrect|accurate inaccurate"
    "|buyer seller|plaintiff defendant|creditor debtor|landlord tenant|employer employee|winner loser",
    "de":
    "steigen sinken|steigen fallen|zunehmen abnehmen|erhöhen senken|erhöhen verringern|größer kleiner"
    "|höher niedriger|hoch niedrig|hoch tief|vor nach|früher später|über unter|maximum minimum|größte kleinste"
    "|immer nie|alle keine|schneller langsamer|schnell langsam|erlauben verbieten|erlaubt verboten"
    "|positiv negativ|öffnen schließen|anfang ende|links rechts|möglich unmöglich|öffentlich privat|wahr falsch"
    "|annehmen ablehnen|stark schwach|stärker schwächer|warm kalt|lang kurz|länger kürzer|alt jung|alt neu"
    "|leicht schwer|besser schlechter|beste schlechteste|mehrheit minderheit|innen außen|gewinnen verlieren"
    "|sicher unsicher|erforderlich optional|gleich verschieden|abhängig unabhängig|stabil instabil|häufig selten"
    "|nördlich südlich|östlich westlich|bekannt unbekannt|gültig ungültig|sichtbar unsichtbar|steigt sinkt"
    "|steigt fällt|wächst schrumpft|gewinnt verliert|höchstens mindestens|zulässig unzulässig|exotherm endotherm"
    "|käufer verkäufer|kläger beklagter|gläubiger schuldner|mieter vermieter",
    "fr":
    "augmenter diminuer|augmente diminue|haut bas|haute basse|gagner perdre|avant après|premier dernier|plus moins"
    "|maximum minimum|toujours jamais|possible impossible|acheteur vendeur|chaud froid|fort faible|long court"
    "|positif négatif|nord sud|ouvrir fermer|rapide lent|vrai faux",
}  # fmt: skip


def opposites(language: str) -> list[tuple[str, str]]:
    """Return the pairs of opposites of a language.

    >>> ("accept", "reject") in opposites("en"), opposites("pl")
    (True, [])
    """
    pairs = (pair.split() for pair in _PAIRS.get(language, "").split("|") if pair)
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
