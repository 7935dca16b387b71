"""Study material from the documents of a course, and clean notes.

`read_course` reads documents; the others make something of them::

    documents = study.read_course("notes/")
    study.save_cards("cards.apkg", study.study_cards(documents))

>>> from lmm_education import study
>>> "study_plan" in dir(study)
True
"""

import lazy_loader

# Nothing is loaded before it is used; the file beside this one says what there is, and where.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
