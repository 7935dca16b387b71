"""``Model2Vec/…``: static word vectors distilled from a sentence transformer, of the hub or in a folder.

Small and fast as the built-in model, and there are multilingual ones
(``Model2Vec/minishlab/potion-multilingual-128M``). A text none of whose words the model knows has no vector.
"""

from __future__ import annotations

from lmm.config import ModelSettings
from lmm.models.embedders.encoder import Vector
from lmm.models.embedders.local import Encode, LocalEncoder, folder_of, require, rows, state_of
from lmm.models.embedders.prefixes import Prefixes
from lmm.models.port import Side


def open_model2vec(settings: ModelSettings, prefixes: Prefixes) -> LocalEncoder:
    """A static model; it has no sides, so only prefixes from the settings are used.

    Raises:
        ModelNotInstalled: the extra is not installed.
        ModelNotFound: the folder named does not exist; from `encode`, the model cannot be loaded.
    """
    require("model2vec", settings)
    folder = folder_of(settings)
    asked = Prefixes(settings.query_prefix or "", settings.document_prefix or "")

    def load() -> Encode:
        from model2vec import StaticModel

        model = StaticModel.from_pretrained(folder or settings.model.model, force_download=False)

        def encode(texts: list[str], kind: Side) -> list[Vector]:
            prefix = asked.of(kind)
            # The whole text: there is no window in a mean. One thread: its own would need a pool for each call.
            return rows(model.encode([prefix + text for text in texts], max_length=None, use_multiprocessing=False))

        return encode

    return LocalEncoder(settings, asked, load, batch_size=256, weights=state_of(folder))
