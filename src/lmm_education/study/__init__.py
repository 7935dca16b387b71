"""Study material and clean notes from the documents of a course.

`read_course` reads documents; other functions make study material from them::

    documents = study.read_course("notes/")
    study.save_cards("cards.apkg", study.study_cards(documents))

>>> from lmm_education import study
>>> "study_plan" in dir(study)
True
"""

from lmm.lazy_names import lazy_names

# Everything is imported on first use; the stub file beside this one lists the names and their modules.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
