"""Study material from the documents of a course, and clean notes.

`read_course` reads documents; the others make something of them::

    documents = study.read_course("notes/")
    study.save_cards("cards.apkg", study.study_cards(documents))

>>> from lmm_education import study
>>> "study_plan" in dir(study)
True
"""

from lmm.lazy import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:  # for editors and type checkers, which take this name for true
    from lmm_education.study.card_files import save_cards
    from lmm_education.study.cards import Card, study_cards, write_cards
    from lmm_education.study.clean import Notes, clean_notes
    from lmm_education.study.exercises import Exercise, find_exercises
    from lmm_education.study.notes import ExportOptions, ExportReport, export_notes
    from lmm_education.study.plans import StudyPlan, StudyStep, study_plan
    from lmm_education.study.study_documents import StudyDocument, read_course, study_document
    from lmm_education.study.toc import Entry, table_of_contents

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "card_files": ("save_cards",),
    "cards": ("Card", "study_cards", "write_cards"),
    "clean": ("Notes", "clean_notes"),
    "exercises": ("Exercise", "find_exercises"),
    "notes": ("ExportOptions", "ExportReport", "export_notes"),
    "plans": ("StudyPlan", "StudyStep", "study_plan"),
    "study_documents": ("StudyDocument", "read_course", "study_document"),
    "toc": ("Entry", "table_of_contents"),
}

__all__ = [
    "Card",
    "Entry",
    "Exercise",
    "ExportOptions",
    "ExportReport",
    "Notes",
    "StudyDocument",
    "StudyPlan",
    "StudyStep",
    "clean_notes",
    "export_notes",
    "find_exercises",
    "read_course",
    "save_cards",
    "study_cards",
    "study_document",
    "study_plan",
    "table_of_contents",
    "write_cards",
]

__getattr__, __dir__ = lazily(__name__, {f"{__name__}.{module}": names for module, names in _PUBLIC.items()})
