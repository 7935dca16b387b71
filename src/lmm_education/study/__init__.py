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
    from lmm_education.study.ask_cards import write_cards
    from lmm_education.study.card_files import save_cards
    from lmm_education.study.cards import Card, study_cards
    from lmm_education.study.exercises import Exercise, find_exercises
    from lmm_education.study.export import Notes, clean_notes
    from lmm_education.study.material import StudyDocument, study_document
    from lmm_education.study.plan import Plan, Step, study_plan
    from lmm_education.study.reading import read_course
    from lmm_education.study.run_export import ExportOptions, ExportReport, export_notes
    from lmm_education.study.toc import Entry, table_of_contents

# What can be imported from here, and where it is. Nothing is loaded before it is used.
_PUBLIC = {
    "Card": "cards",
    "Entry": "toc",
    "Exercise": "exercises",
    "ExportOptions": "run_export",
    "ExportReport": "run_export",
    "Notes": "export",
    "Plan": "plan",
    "Step": "plan",
    "StudyDocument": "material",
    "clean_notes": "export",
    "export_notes": "run_export",
    "find_exercises": "exercises",
    "read_course": "reading",
    "save_cards": "card_files",
    "study_cards": "cards",
    "study_document": "material",
    "study_plan": "plan",
    "table_of_contents": "toc",
    "write_cards": "ask_cards",
}

__all__ = [
    "Card",
    "Entry",
    "Exercise",
    "ExportOptions",
    "ExportReport",
    "Notes",
    "Plan",
    "Step",
    "StudyDocument",
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

__getattr__, __dir__ = lazily(__name__, {name: f"{__name__}.{module}" for name, module in _PUBLIC.items()})
