"""Study material and clean notes from documents; from those of a course, see `lmm_education.Course`.

>>> from lmm_education import study
>>> "study_plan" in dir(study)
True
"""

from lmm.lazy_names import lazy_names

# Everything is imported on first use; the stub file beside this one lists the names and their modules.
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
