"""What can be imported from here: for type checkers and editors, and for `lmm.lazy_names`."""

from .cards import Card as Card, save_cards as save_cards, study_cards as study_cards, write_cards as write_cards
from .exercises import Exercise as Exercise, find_exercises as find_exercises
from .notes import (
    ExportOptions as ExportOptions,
    ExportReport as ExportReport,
    Notes as Notes,
    clean_notes as clean_notes,
    export_notes as export_notes,
)
from .plans import StudyPlan as StudyPlan, StudyStep as StudyStep, study_plan as study_plan
from .study_documents import (
    Entry as Entry,
    StudyDocument as StudyDocument,
    study_document as study_document,
    table_of_contents as table_of_contents,
)
